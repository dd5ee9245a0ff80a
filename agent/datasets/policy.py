"""Numbers that decide the contents of a dataset."""

from __future__ import annotations

from typing import Final

NEAR_SHARE: Final = 0.9
"""Share of token runs that two sources must have in common to be near repeats."""
RUN_TOKENS: Final = 5
"""Tokens of a run."""
SKETCH_HASHES: Final = 256
"""Hashes in the sketch of a source; the estimate of a share near 0.9 is good to 0.02 (its standard error)."""
SKETCH_BANDS: Final = 8
"""Classes of hashes by which candidates for a near repeat are looked up."""
BAND_SOURCES: Final = 64
"""Most sources listed under one band; a band that all share distinguishes nothing."""
NAMES_TOLD: Final = 8
"""Most known names that the error of a misspelt filter lists."""

CHEATED: Final = -1.0
"""Reward of an attempt refused for cheating."""
FAILED: Final = 0.0
"""Reward of any other failure, and of a doubtful pass."""
CORRECT: Final = 0.3
"""Reward of a correct kernel; its speedup is added."""
MOST_SPEEDUP: Final = 10.0
"""Largest speedup that adds to a reward: larger ones are rarely honest and never typical."""

PARQUET_ROWS: Final = 64
"""Rows that wait for a Parquet row group; they are long."""
