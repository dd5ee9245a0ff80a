"""Applies the filters of an export, and finds filters that match no attempt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from kernelwright.agent.datasets.export_settings import Filters
from kernelwright.agent.datasets.policy import NAMES_TOLD
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.evaluator import Status

OF_ATTEMPTS: Final = frozenset({"hardware", "status", "track"})
"""Filters that can differ between the turns of one conversation."""


def refusal(attempt: Attempt, filters: Filters) -> str:
    """The filter that refuses an attempt; empty when none does."""
    key, score = attempt.key, attempt.evaluation.score if attempt.evaluation else None
    passed = score is not None and score.status is Status.PASSED
    hardware = score.hardware if score else None
    wrong = {
        "run": filters.runs and key.run not in filters.runs,
        "problem": filters.problems and not _holds_one(key.problem, filters.problems),
        "backend": filters.backends and key.backend not in filters.backends,
        "model": filters.models and key.model not in filters.models,
        "license": filters.licenses and not _is_one(attempt.completion.license or "", filters.licenses),
        "status": filters.statuses and (score is None or score.status not in filters.statuses),
        "hardware": filters.hardware and hardware and not _holds_one(hardware, filters.hardware),
        "track": filters.tracks and passed and score is not None and score.track not in filters.tracks,
    }
    return next((name for name, refused in wrong.items() if refused), "")


class KnownNames:
    """Names of all attempts, to recognize a misspelt filter."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, set[str]] = defaultdict(set)

    def observe(self, attempt: Attempt) -> None:
        seen, score = self._seen, attempt.evaluation.score if attempt.evaluation else None
        seen["problem"].add(attempt.key.problem)
        seen["model"].add(attempt.key.model)
        seen["license"].add(attempt.completion.license or "")
        if score and score.hardware:
            seen["hardware"].add(score.hardware)

    def misspelt(self, filters: Filters) -> str:
        """Name the first filter that matches no attempt, and the known names; empty when all match one."""
        asked = {
            "problem": (filters.problems, _holds_one),
            "model": (filters.models, _is_one),
            "license": (filters.licenses, _is_one),
            "hardware": (filters.hardware, _holds_one),
        }
        for name, (words, fits) in asked.items():
            seen = sorted(self._seen[name] - {""})
            for word in words:
                if self._seen and not any(fits(known, [word]) for known in seen):
                    more = ", ..." if len(seen) > NAMES_TOLD else ""
                    known = f"there are: {', '.join(seen[:NAMES_TOLD])}{more}" if seen else "none states one"
                    return f"--{name} {word!r} fits no attempt; {known}"
        return ""


def _is_one(name: str, words: Iterable[str]) -> bool:
    return any(name.casefold() == word.casefold() for word in words)


def _holds_one(name: str, words: Iterable[str]) -> bool:
    return any(word.casefold() in name.casefold() for word in words)
