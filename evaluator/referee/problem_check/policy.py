"""Numbers that decide which problems have flaws."""

from __future__ import annotations

from typing import Final

REFERENCE_CALLS: Final = 100
"""About how often an evaluation calls the reference."""
SENSITIVITY_S: Final = 20.0
"""Seconds spent changing inputs and parameters one at a time."""
CONFIRMATION_S: Final = 100.0
"""Seconds for trials that confirm suspected flaws: a third of what an inspection may take."""
MAX_FIXED_WORK: Final = 0.5
"""Share of a call's work that may depend on parameters alone."""
SHORT_CALL_MS: Final = 20.0
"""Estimated duration below which one thread is enough."""
WEIGHT_SEEDS: Final = (11, 12)
"""Seeds of the two weight draws that are looked at."""
INPUT_SEEDS: Final = (21, 22)
"""Seeds of the two input draws."""
TRIAL_SEED: Final = 31
"""Seed of the trials that a suspected flaw is held against."""
FRESH_DRAWS: Final = 16
"""Further draws of inputs before something counts as never read: of eight lengths, as a decode step has them,
none reaches the last third of its cache in 37% of draws."""
SLABS: Final = 3
"""Parts an axis is cut into to see that all of it is read."""
LOOSE: Final = 1e-2
"""Relative and absolute tolerance common in the field."""
BEYOND_ROUNDING: Final = 1e-3
"""Relative distance of two outputs that is more than rounding in float32."""
