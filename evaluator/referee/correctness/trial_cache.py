"""Trials in bounded memory: the most recently used stay solved, others are solved again on demand."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from kernelwright.evaluator.ipc.tensor_tree import Tree, same_structure
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED, Spread
from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.comparison import Comparison, compare
from kernelwright.evaluator.referee.correctness.tolerance import Expected, output_scales
from kernelwright.evaluator.referee.reference.input_structure import computable, variable
from kernelwright.evaluator.referee.reference.reference import Arguments, Output
from kernelwright.evaluator.referee.worker.setup import ModelSpec
from kernelwright.evaluator.schema.errors import ProblemError


@dataclass(frozen=True, slots=True)
class SolvedTrial:
    """One set of inputs with its expected outputs."""

    arguments: Arguments
    expected: Expected

    @property
    def size_bytes(self) -> int:
        found = self.expected.leaves
        solved = (each for leaf in found for each in (leaf.own, leaf.exact, leaf.scale) if each is not None)
        return sum(leaf.numel() * leaf.element_size() for leaf in (*self.arguments.leaves, *solved))


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
        self._kept.pop(solve, None)

    def _make_room(self) -> None:
        held = sum(solved.size_bytes for solved in self._kept.values())
        while self._kept and held + self._largest_bytes > self._budget_bytes:
            held -= self._kept.popitem(last=False)[1].size_bytes


@dataclass(eq=False, slots=True)
class Trial:
    """One set of inputs with its expected outputs, and the limit of a candidate's error."""

    name: str
    limit: float
    solve: Solve
    cache: TrialCache | None = None
    """Without one, `solve` is asked every time."""
    overall: float = math.inf
    """Limit of the error over whole outputs."""
    near: Trial | None = None
    """A trial of nearby inputs: the change between both is compared too."""

    @property
    def solved(self) -> SolvedTrial:
        """Inputs and expected outputs, which belong together."""
        return self.cache.fetch(self.solve) if self.cache is not None else self.solve()

    @property
    def arguments(self) -> Arguments:
        return self.solved.arguments

    @property
    def expected(self) -> Expected:
        return self.solved.expected

    def compare(self, outputs: list[torch.Tensor]) -> Comparison:
        """Compare outputs for its inputs with the expected ones."""
        return compare(self.expected, outputs, limit=self.limit, trial=self.name, overall=self.overall)

    @property
    def kept(self) -> SolvedTrial | None:
        """The same, if it need not be solved again."""
        return self.cache.look(self.solve) if self.cache is not None else None

    def forget(self) -> None:
        """It will not be needed again."""
        if self.cache is not None:
            self.cache.drop(self.solve)


@dataclass(frozen=True, slots=True)
class Draw:
    """One weight draw: the disclosed seed, whether parameters were varied, and its trials."""

    seed: int
    model: nn.Module
    vary: bool = False
    """True where constants were moved."""
    spread: Spread = UNCHANGED
    """Factor on the distance of random weights from their means."""
    trials: list[Trial] = field(default_factory=list)
    given: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters and buffers that were changed after construction: a candidate is given them by name."""
    at_construction: bool = True
    """True where constants that construction makes were varied there."""

    def spec(
        self, class_name: str, *, state: dict[str, torch.Tensor] | None = None, model: str = "m"
    ) -> ModelSpec:
        """A model of this draw, to be constructed in a worker."""
        vary = self.vary and self.at_construction
        return ModelSpec(class_name, model, self.seed, vary, state, self.given, spread=self.spread)


def mark(leaves: list[torch.Tensor]) -> int:
    """A number that tells tensors from others, bit for bit, but for their order."""
    found = 0
    for leaf in leaves:
        held = leaf.resolve_conj().contiguous().view(-1)
        whole = held.view(torch.int32 if leaf.element_size() % 4 == 0 else torch.uint8)
        parts = enumerate(torch.split(whole, policy.CHUNK_ELEMENTS), 1)
        found += int(torch.stack([number * part.sum(dtype=torch.int64) for number, part in parts]).sum())
    return found


Draws = Callable[[], Arguments]
"""Draws inputs: the same ones every time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A trial of drawn inputs, from which others are made."""

    trial: Trial
    redraw: Draws
    varies: bool
    tree: Tree
    shapes: list[torch.Size]
    finite: list[int]
    """Finite elements of each output."""
    usual: list[float | None]

    @classmethod
    def of(cls, trial: Trial, redraw: Draws) -> Origin:
        """Collect the facts that are needed when its tensors may be gone."""
        solved = trial.solved
        output = solved.expected.output
        return cls(
            trial,
            redraw,
            varies=any(map(variable, solved.arguments.varying)),
            tree=output.tree,
            shapes=[leaf.shape for leaf in output.leaves],
            finite=[count_finite(leaf) for leaf in output.leaves],
            usual=output_scales(solved.expected),
        )

    def require_same_form(self, other: Origin, problem: str) -> None:
        """Raise `ProblemError` unless outputs have the same shapes: memory for them is laid out once."""
        if not same_structure(self.tree, other.tree) or self.shapes != other.shapes:
            shapes = (", ".join(str(tuple(shape)) for shape in origin.shapes) for origin in (self, other))
            raise ProblemError(
                f"problem {problem}: two draws of inputs give outputs of different shapes: "
                f"{' and '.join(shapes)}; return the same shapes for every draw"
            )

    def draw(self) -> Arguments:
        kept = self.trial.kept
        return kept.arguments if kept is not None else self.redraw()

    def is_met_by(self, output: Output, share: float) -> bool:
        """Return whether an output has as many finite elements, but for a share."""
        return (
            same_structure(output.tree, self.tree)
            and [leaf.shape for leaf in output.leaves] == self.shapes
            and all(
                count_finite(leaf) >= share * most
                for leaf, most in zip(output.leaves, self.finite, strict=True)
            )
        )


def count_finite(leaf: torch.Tensor) -> int:
    """Finite elements of a tensor."""
    return int(computable(leaf).isfinite().count_nonzero())
