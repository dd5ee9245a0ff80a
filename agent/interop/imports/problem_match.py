"""Finds the problem that a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

DOUBTFUL: Final = 0.34
"""Share of common words at which two names may mean one problem."""

_NOISE: Final = frozenset({"a", "and", "by", "dimension", "for", "of", "op", "py", "the", "with"})


@dataclass(frozen=True, slots=True)
class ProblemMatch:
    """The problem that a name means."""

    problem: str
    """Problem id."""
    how: str
    """The common part: `name`, `number` or `words`; `asked` where the user named the problem."""

    @property
    def certain(self) -> bool:
        """True when the names agree; numbers and words differ between collections."""
        return self.how == "name"


def match_problem(name: str, known: Iterable[str], *, by_number: bool = True) -> ProblemMatch | None:
    """The known problem a name means; None when none is near, or two are equally near.

    `by_number` says that the known problems are numbered as those the name is from.
    """
    ids = list(known)
    same = [problem for problem in ids if name == problem] or [
        problem for problem in ids if _bare(name) and _bare(name) == _bare(problem)
    ]
    if len(same) == 1:
        return ProblemMatch(same[0], how="name")
    numbered = [problem for problem in ids if by_number and _has_number(problem, name)]
    if len(numbered) == 1:
        return ProblemMatch(numbered[0], how="number")
    words = _words(name)
    near = sorted(((_overlap(words, _words(problem)), problem) for problem in ids), reverse=True)
    if not near or near[0][0] < DOUBTFUL or (len(near) > 1 and near[0][0] == near[1][0]):
        return None
    return ProblemMatch(near[0][1], how="words")


def _has_number(problem: str, name: str) -> bool:
    level, _, number = name.partition("/")
    folder, _, stem = problem.rpartition("/")
    return number.isdecimal() and folder == level and stem.partition("_")[0].lstrip("0") == number.lstrip("0")


def _bare(name: str) -> str:
    stem = name.removesuffix(".py").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"^\d+[_-]", "", stem)).strip("_")


def _words(name: str) -> frozenset[str]:
    return frozenset(_bare(name).split("_")) - _NOISE - {""}


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
