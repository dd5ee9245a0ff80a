"""Limits of a run: failures, messages and estimates."""

from __future__ import annotations

from typing import Final

PROVIDER_STRIKES: Final = 10
"""Failures in a row, without any reply in between, after which a model is not asked again."""
EVALUATOR_STRIKES: Final = 3
"""Failures after which a problem is left alone, and problems failing in a row after which a run stops."""
LONGEST_MESSAGE: Final = 1000
"""Characters stored of an error message; some endpoints answer with a web page."""
ESTIMATE_MARGIN: Final = 1.5
"""Factor on estimated prompt tokens, which are off by up to a fifth: a bound must not be below the
truth."""
