"""Numbers and statuses that decide how a referee shares its device, and whose failure a failure is."""

from __future__ import annotations

from typing import Final

from kernelwright.evaluator.schema.evaluation import Status

TRIALS_MEMORY_SHARE: Final = 0.05
"""Share of a device's free memory for solved trials: contestants need the rest."""
CALL_COPIES: Final = 3
"""Times a call's memory an evaluation needs: the reference in float64, and a candidate."""
ENOUGH_FREE: Final = 0.5
"""Share of a device's memory that must be free without a candidate for a shortage to be its own."""
INCONCLUSIVE: Final = (Status.COMPILE_ERROR, Status.TIMED_OUT)
"""Statuses of a repetition with torch's own headers that leave the first evaluation standing."""
