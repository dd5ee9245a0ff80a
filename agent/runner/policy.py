"""Limits of a run: failures, messages and estimates."""

from __future__ import annotations

from typing import Final

PROVIDER_STRIKES: Final = 10
"""Failures in a row, without any reply in between, after which a model is not asked again."""
EVALUATOR_STRIKES: Final = 3
"""Failures after which a problem is skipped, and problems failing in a row after which a run stops."""
MOST_BUILDS: Final = 32
"""Builds of kernels that are to be saved at once, of as many as there are cores."""
MEASURED_AGAIN: Final = 2
"""Tries to measure the best attempt again on a machine that is busy with something else."""
LONGEST_MESSAGE: Final = 1000
"""Characters stored of an error message; some endpoints send a web page."""
ESTIMATE_MARGIN: Final = 1.5
"""Factor on estimated prompt tokens, which err by up to a fifth: a bound must not be too low."""
