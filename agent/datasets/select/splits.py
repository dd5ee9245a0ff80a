"""Assigns problems to train or test, and finds those that must not be in the dataset at all.

Problems whose references are the same or nearly the same get one split, whatever their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kernelwright.agent.datasets.policy import NEAR_SHARE
from kernelwright.agent.datasets.select.near_duplicates import Repeats, Sketch, sketch
from kernelwright.agent.records.atomic_folder import UnusableExport
from kernelwright.evaluator import ProblemError, find_problems

TRAIN: Final = "train"
TEST: Final = "test"


class ProblemSplits:
    """The problems of an export."""

    def __init__(self, *, test: float, seed: int, forbidden: Iterable[str] = ()) -> None:
        """`forbidden` are sources of references that must not be in the dataset."""
        self._test = test
        self._seed = seed
        self._forbidden = Repeats()
        for source in forbidden:
            self._forbidden.add(sketch(source))
        self._parents: dict[str, str] = {}
        self._sketches: dict[str, Sketch] = {}
        """By the hash of the reference's source."""
        self._first: dict[str, str] = {}
        """The first problem with a reference."""
        self._bands: dict[tuple[int, ...], list[str]] = {}
        """Hashes of references by what near repeats share."""
        self._contaminated: set[str] = set()

    def learn(self, problem: str, sha: str, source: str | None) -> None:
        """Add a problem as a run used it; None when its reference is lost."""
        self._parents.setdefault(problem, problem)
        if source is None:
            return
        new = self._sketches[sha] = sketch(source)
        self._first.setdefault(sha, problem)
        if self._forbidden.holds(new):
            self._contaminated.add(sha)
        for known in {known for band in new.bands for known in self._bands.get(band, ())}:
            name = self._first[known]
            if self._root(name) != self._root(problem) and new.is_near(self._sketches[known], NEAR_SHARE):
                self._join(problem, name)
        for band in new.bands:
            self._bands.setdefault(band, []).append(sha)

    def is_known(self, problem: str, sha: str) -> bool:
        """Return whether `learn` saw the problem with this reference."""
        return problem in self._parents and (sha in self._sketches or not sha)

    def is_contaminated(self, sha: str) -> bool:
        """Return whether its reference is a forbidden one, or nearly one."""
        return sha in self._contaminated

    def split(self, problem: str) -> str:
        """`train` or `test`."""
        root = self._root(problem)
        digest = hashlib.sha256(f"{self._seed}\0{root}".encode()).digest()
        return TEST if int.from_bytes(digest[:8]) < self._test * 2**64 else TRAIN

    def _root(self, problem: str) -> str:
        while self._parents[problem] != problem:
            self._parents[problem] = self._parents[self._parents[problem]]
            problem = self._parents[problem]
        return problem

    def _join(self, one: str, other: str) -> None:
        # The smallest name is the root, so that the order of reading does not matter.
        first, last = sorted((self._root(one), self._root(other)))
        self._parents[last] = first


def forbidden_sources(paths: Iterable[str]) -> list[str]:
    """References in files and folders; raises UnusableExport where a path is missing or holds none."""
    try:
        return [path.read_text("utf-8", "replace") for path in find_problems(Path(name) for name in paths)]
    except ProblemError as error:
        raise UnusableExport(f"--decontaminate: {error}") from None
