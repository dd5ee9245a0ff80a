"""Changes each input, parameter and buffer, one at a time, and looks for a change of the outputs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.problem_check.policy import SLABS
from kernelwright.evaluator.referee.problem_check.trivial_answers import Acceptance, Examiner, differ
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, Severity


class Sensitivity:
    """Examines one model with one set of inputs."""

    def __init__(
        self,
        reference: Reference,
        model: nn.Module,
        arguments: Arguments,
        examiner: Examiner,
        *,
        deadline: float = math.inf,
    ) -> None:
        """Nothing more is tried after `deadline`, on the monotonic clock."""
        self._reference = reference
        self._model = model
        self._arguments = arguments
        self._examiner = examiner
        self._deadline = deadline
        self.guessable: list[str] = []
        """Changes that only a loose tolerance overlooks."""
        self.untried = 0

    def of_inputs(self, other: Arguments) -> Iterator[ProblemFlaw]:
        """Inputs that may be ignored; `other` is another draw."""
        for index, leaf in enumerate(self._arguments.leaves):
            if time.monotonic() > self._deadline:
                self.untried += 1
                continue
            fresh = _another(leaf, other.leaves[index] if index < len(other.leaves) else None)
            if fresh is None:
                continue
            acceptance = self._acceptance(self._after_input(index, fresh))
            # Once may be chance: two sums of a million random terms can agree.
            if acceptance.ours and self._acceptance(self._after_input(index, _moved(fresh))).ours:
                yield _flaw("ignores_input", f"input {index} ({_shape(leaf)}) may be anything: {acceptance}")
                continue
            if acceptance.loose:
                self.guessable.append(f"ignores_input {index}")
            where = self._unread(index, leaf, fresh)
            if where:
                yield _flaw("reads_part_of_input", f"input {index} ({_shape(leaf)}): {where} is never read")

    def of_parameters(self, other: nn.Module) -> Iterator[ProblemFlaw]:
        """Parameters and buffers that may be ignored; `other` is another weight draw."""
        states = self._states()
        theirs = dict(other.named_parameters()) | dict(other.named_buffers())
        parameters = dict(self._model.named_parameters())
        for name, tensor in (parameters | dict(self._model.named_buffers())).items():
            if name in states or (name not in parameters and tensor.dim() == 0):
                continue
            if time.monotonic() > self._deadline:
                self.untried += 1
                continue
            fresh = _another(tensor.detach(), theirs[name].detach() if name in theirs else None)
            if fresh is None:
                continue
            acceptance = self._acceptance(self._after_parameter(tensor, fresh))
            ignored = acceptance.ours and self._acceptance(self._after_parameter(tensor, _moved(fresh))).ours
            if ignored and name in parameters:
                yield _flaw("ignores_parameter", f"{name} ({_shape(tensor)}) may be anything: {acceptance}")
            elif ignored:
                yield ProblemFlaw(
                    name="ignores_buffer", severity=Severity.NOTE, detail=f"{name} ({_shape(tensor)})"
                )
            elif acceptance.loose:
                self.guessable.append(f"ignores_parameter {name}")

    def _acceptance(self, answer: Output | None) -> Acceptance:
        return self._examiner.accepts(answer.leaves) if answer is not None else _REFUSED

    def _after_input(self, index: int, fresh: torch.Tensor) -> Output | None:
        leaves = list(self._arguments.leaves)
        leaves[index] = fresh
        return self._call(self._arguments.with_leaves(leaves))

    def _after_parameter(self, tensor: torch.Tensor, fresh: torch.Tensor) -> Output | None:
        with torch.no_grad():
            kept = tensor.clone()
            tensor.copy_(fresh)
            try:
                return self._call(self._arguments)
            finally:
                tensor.copy_(kept)

    def _call(self, arguments: Arguments) -> Output | None:
        try:
            return self._reference.call(self._model, arguments)
        except ProblemError:
            return None

    def _unread(self, index: int, leaf: torch.Tensor, fresh: torch.Tensor) -> str:
        """The part of an axis that influences no bit of the outputs; empty if none."""
        same = self._after_input(index, leaf.clone(memory_format=torch.contiguous_format))
        for axis, size in enumerate(leaf.shape):
            pieces = fresh.chunk(SLABS, axis) if size > 1 else ()
            for number, piece in enumerate(pieces):
                if time.monotonic() > self._deadline:
                    return ""
                changed = leaf.clone(memory_format=torch.contiguous_format)
                changed.chunk(SLABS, axis)[number].copy_(piece)
                answer = self._after_input(index, changed)
                if same is not None and answer is not None and not differ(same, answer)[1]:
                    return f"part {number + 1} of {len(pieces)} along dimension {axis}"
        return ""

    def _states(self) -> set[str]:
        before = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        copies = self._arguments.with_leaves([leaf.clone() for leaf in self._arguments.leaves])
        args, kwargs = copies.values()
        with torch.no_grad():
            self._model(*args, **kwargs)
            changed = {
                name
                for name, buffer in self._model.named_buffers()
                if name in before and not torch.equal(buffer, before[name])
            }
            for name, buffer in self._model.named_buffers():
                buffer.copy_(before[name])
        return changed


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


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"


def _flaw(name: str, detail: str) -> ProblemFlaw:
    return ProblemFlaw(name=name, severity=Severity.FLAW, detail=detail)


_REFUSED: Final = Acceptance(ours=False, loose=False)
