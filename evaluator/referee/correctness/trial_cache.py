"""Trials in bounded memory: the most recently used stay solved, others are solved again on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.evaluator.referee.correctness.tolerance import Expected
from kernelwright.evaluator.referee.reference.reference import Arguments


@dataclass(frozen=True, slots=True)
class SolvedTrial:
    """One set of inputs with its expected outputs."""

    arguments: Arguments
    expected: Expected

    @property
    def size_bytes(self) -> int:
        """Bytes of all its tensors."""
        scales = (scale for scale in self.expected.scales if scale is not None)
        held = (*self.arguments.leaves, *self.expected.output.leaves, *self.expected.exact, *scales)
        return sum(leaf.numel() * leaf.element_size() for leaf in held)


Solve = Callable[[], SolvedTrial]


class TrialCache:
    """Keeps what was solved, up to a number of bytes; the last one always."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._kept: OrderedDict[Solve, SolvedTrial] = OrderedDict()
        self._largest_bytes = 0

    def fetch(self, solve: Solve) -> SolvedTrial:
        """The result of `solve`, cached or computed now; room for it is made first."""
        found = self._kept.get(solve)
        if found is None:
            self._make_room()
            found = self._kept[solve] = solve()
            self._largest_bytes = max(self._largest_bytes, found.size_bytes)
        self._kept.move_to_end(solve)
        return found

    def look(self, solve: Solve) -> SolvedTrial | None:
        """The cached result, if there is one."""
        return self._kept.get(solve)

    def drop(self, solve: Solve) -> None:
        """Keep it no longer."""
        self._kept.pop(solve, None)

    def _make_room(self) -> None:
        held = sum(solved.size_bytes for solved in self._kept.values())
        while self._kept and held + self._largest_bytes > self._budget_bytes:
            held -= self._kept.popitem(last=False)[1].size_bytes


class Trial:
    """One set of inputs with its expected outputs, and the limit of a candidate's error."""

    def __init__(self, name: str, limit: float, solve: Solve, cache: TrialCache | None = None) -> None:
        """Without a shelf `solve` is asked every time."""
        self.name = name
        self.limit = limit
        self._solve = solve
        self._cache = cache

    @property
    def solved(self) -> SolvedTrial:
        """Inputs and expected outputs, which belong together."""
        return self._cache.fetch(self._solve) if self._cache is not None else self._solve()

    @property
    def arguments(self) -> Arguments:
        """The inputs."""
        return self.solved.arguments

    @property
    def expected(self) -> Expected:
        """The expected outputs."""
        return self.solved.expected

    @property
    def kept(self) -> SolvedTrial | None:
        """The same, if it need not be solved again."""
        return self._cache.look(self._solve) if self._cache is not None else None

    def forget(self) -> None:
        """It will not be needed again."""
        if self._cache is not None:
            self._cache.drop(self._solve)
