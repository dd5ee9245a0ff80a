"""Changes each input, parameter and buffer, one at a time, and looks for a change of the outputs.

What is ignored here, with one set of inputs and initial weights, is suspected only (`confirmation`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.referee.problem_check import policy
from kernelwright.evaluator.referee.problem_check.trivial_answers import (
    REFUSED,
    Acceptance,
    Examiner,
    Guess,
    Suspicion,
    differ,
)
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, Severity, flaw_of


@dataclass(slots=True)
class Sensitivity:
    """Examines one model with one set of inputs."""

    reference: Reference
    model: nn.Module
    arguments: Arguments
    examiner: Examiner
    deadline: float = math.inf
    """Nothing more is tried after it, on the monotonic clock."""
    guessable: list[str] = field(default_factory=list)
    """Changes that only a loose tolerance overlooks."""
    untried: int = 0

    def of_inputs(self, other: Arguments) -> Iterator[Suspicion]:
        """Inputs that may be ignored; `other` is another draw."""
        for index, leaf in enumerate(self.arguments.leaves):
            if time.monotonic() > self.deadline:
                self.untried += 1
                continue
            fresh = _another(leaf, other.leaves[index] if index < len(other.leaves) else None)
            if fresh is None:
                continue
            acceptance = self._acceptance(self._after_input(index, fresh))
            # Once may be chance: two sums of a million random terms can agree.
            if acceptance.ours and self._acceptance(self._after_input(index, _moved(fresh))).ours:
                detail = f"input {index} ({_shape(leaf)}) may be anything: {acceptance}"
                guess = self._with_input(index, _elsewhere)
                yield Suspicion(flaw_of("ignores_input", detail), guess, depends_on_values=True)
                continue
            if acceptance.loose:
                self.guessable.append(f"ignores_input {index}")
            part = self._unread(index, leaf, fresh)
            if part is not None:
                detail = f"input {index} ({_shape(leaf)}): {part} is never read"
                flaw, guess = flaw_of("reads_part_of_input", detail), self._with_input(index, part.moved)
                yield Suspicion(flaw, guess, depends_on_values=True, is_bitwise=True)

    def of_parameters(self, other: nn.Module) -> Iterator[Suspicion]:
        """Parameters and buffers that may be ignored; `other` is another weight draw."""
        states = self.reference.effects.state
        theirs, parameters = named_state(other), dict(self.model.named_parameters())
        for name, tensor in named_state(self.model).items():
            if name not in parameters and (name in states or tensor.dim() == 0):
                continue
            if time.monotonic() > self.deadline:
                self.untried += 1
                continue
            fresh = _another(tensor.detach(), theirs[name].detach() if name in theirs else None)
            if fresh is None:
                continue
            acceptance = self._acceptance(self._after_parameter(tensor, fresh))
            ignored = acceptance.ours and self._acceptance(self._after_parameter(tensor, _moved(fresh))).ours
            if ignored:
                flaw = ProblemFlaw(
                    name="ignores_buffer", severity=Severity.NOTE, detail=f"{name} ({_shape(tensor)})"
                )
                if name in parameters:
                    detail = f"{name} ({_shape(tensor)}) may be anything: {acceptance}"
                    flaw = flaw_of("ignores_parameter", detail)
                yield Suspicion(flaw, self._with_parameter(name), depends_on_values=True)
            elif acceptance.loose:
                self.guessable.append(f"ignores_parameter {name}")

    def _acceptance(self, answer: Output | None) -> Acceptance:
        return self.examiner.accepts(answer.leaves) if answer is not None else REFUSED

    def _after_input(self, index: int, fresh: torch.Tensor) -> Output | None:
        return _call(self.reference, self.model, _replaced(self.arguments, index, fresh))

    def _after_parameter(self, tensor: torch.Tensor, fresh: torch.Tensor) -> Output | None:
        with _holding(tensor, fresh):
            return _call(self.reference, self.model, self.arguments)

    def _with_input(self, index: int, moved: Callable[[torch.Tensor], torch.Tensor]) -> Guess:
        """The outputs for an input that is moved."""

        def guess(model: nn.Module, arguments: Arguments, _output: Output) -> list[torch.Tensor] | None:
            changed = _replaced(arguments, index, moved(arguments.leaves[index]))
            output = _call(self.reference, model, changed)
            return output.leaves if output is not None else None

        return guess

    def _with_parameter(self, name: str) -> Guess:
        """The outputs of a model with a parameter or buffer moved."""

        def guess(model: nn.Module, arguments: Arguments, _output: Output) -> list[torch.Tensor] | None:
            tensor = named_state(model)[name]
            with _holding(tensor, _elsewhere(tensor.detach())):
                output = _call(self.reference, model, arguments)
            return output.leaves if output is not None else None

        return guess

    def _unread(self, index: int, leaf: torch.Tensor, fresh: torch.Tensor) -> _Part | None:
        """The part of an axis that influences no bit of the outputs."""
        same = self._after_input(index, leaf.clone(memory_format=torch.contiguous_format))
        for axis, size in enumerate(leaf.shape):
            pieces = len(fresh.chunk(policy.SLABS, axis)) if size > 1 else 0
            for number in range(pieces):
                if time.monotonic() > self.deadline:
                    return None
                part = _Part(axis, number, pieces)
                answer = self._after_input(index, part.replaced(leaf, fresh))
                if same is not None and answer is not None and not differ(same, answer)[1]:
                    return part
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the pieces that a dimension is cut into."""

    axis: int
    number: int
    pieces: int

    def __str__(self) -> str:
        return f"part {self.number + 1} of {self.pieces} along dimension {self.axis}"

    def replaced(self, leaf: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        """A copy in which this part is another's."""
        changed = leaf.clone(memory_format=torch.contiguous_format)
        mine, theirs = (each.chunk(policy.SLABS, self.axis)[self.number] for each in (changed, fresh))
        mine.copy_(theirs)
        return changed

    def moved(self, leaf: torch.Tensor) -> torch.Tensor:
        """A copy in which this part has other values."""
        return self.replaced(leaf, _elsewhere(leaf))


def _replaced(arguments: Arguments, index: int, fresh: torch.Tensor) -> Arguments:
    leaves = list(arguments.leaves)
    leaves[index] = fresh
    return arguments.with_leaves(leaves)


def _call(reference: Reference, model: nn.Module, arguments: Arguments) -> Output | None:
    try:
        return reference.call(model, arguments)
    except ProblemError:
        return None


@contextlib.contextmanager
def _holding(tensor: torch.Tensor, fresh: torch.Tensor) -> Iterator[None]:
    """While active, a parameter or buffer holds other values."""
    with torch.no_grad():
        kept = tensor.clone()
        tensor.copy_(fresh)
        try:
            yield
        finally:
            tensor.copy_(kept)


def _another(tensor: torch.Tensor, drawn: torch.Tensor | None) -> torch.Tensor | None:
    """Other values of the same kind: another draw, or, where that is the same, the values moved about."""
    if tensor.numel() == 0:
        return None
    if drawn is not None and drawn.shape == tensor.shape and not torch.equal(drawn, tensor):
        return drawn
    moved = _moved(tensor)
    return None if torch.equal(moved, tensor) else moved


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """Floats scaled by 0.5 to 1.5 each, so that signs and domains stay; zeros raised; the rest rotated."""
    if tensor.is_floating_point() or tensor.is_complex():
        factors = (0.5 + torch.rand(tensor.shape, device=tensor.device)).to(tensor.dtype)
        return torch.where(tensor == 0, factors - 0.5, tensor * factors)
    flat = tensor.flatten()
    return flat.roll(flat.numel() // 3 + 1).reshape(tensor.shape)


def _elsewhere(tensor: torch.Tensor) -> torch.Tensor:
    """The same, of values that are exchanged along the first dimension that has several."""
    axis = next((axis for axis, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return _moved(tensor)
    return _moved(tensor.roll(1, axis))


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"
