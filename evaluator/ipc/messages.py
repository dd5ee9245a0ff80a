"""The requests and answers between driver, referee and contestant."""

from __future__ import annotations

from typing import Final

VERDICT: Final = "verdict:"
"""Prefix of remembered facts that hold only for the evaluator version that found them."""
