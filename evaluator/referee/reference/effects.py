"""Side effects: inputs and state that a call mutates.

Optimizer steps, appended caches, running statistics and counters are compared as outputs are: with exact
values, an error scale and a limit, in verified and in timed calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.ipc.gradients import OUTPUT
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.tensor_tree import Tree

AFTERWARDS = " after the call"
"""End of an effect's name."""


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether all elements are equal, NaN and NaN too."""
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def equal_outputs(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Return whether the tensors of two outputs are equal, one by one."""
    return all(map(same_values, some, others))


def is_comparable(tensor: torch.Tensor) -> bool:
    """Return whether torch can compare a tensor's values: it has some, and is not sparse."""
    return not is_lazy(tensor) and tensor.layout is torch.strided


def are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors that may lack values surely have the same."""
    comparable = is_comparable(one) and is_comparable(other)
    return comparable and one.shape == other.shape and torch.equal(one, other)


@dataclass(frozen=True, slots=True)
class Effects:
    """Inputs and state that calls of a reference change."""

    inputs: tuple[int, ...] = ()
    """Tensors among the arguments, in order."""
    state: tuple[str, ...] = ()
    """Buffers and parameters by name, in the model's order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors that are compared after a call, inputs first."""
        return (*(f"input {index}" for index in self.inputs), *self.state)

    def observed(self, model: nn.Module, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copies of the changed tensors, as a call on `leaves` has left them."""
        held = named_state(model) if self.state else {}
        changed = [*(leaves[index] for index in self.inputs), *(held[name] for name in self.state)]
        return [tensor.detach().clone() for tensor in changed]

    def tree_with_effects(self, value: Tree, returned: int) -> Tree:
        """Structure of a call's value, which holds `returned` tensors, followed by its effects."""
        if not self.names:
            return value
        is_named = value["k"] == "dict" and value["v"] and value["v"][0][0].get("v") == OUTPUT
        entries = list(value["v"]) if is_named else [[{"k": "value", "v": OUTPUT}, value]]
        for number, name in enumerate(self.names):
            key = {"k": "value", "v": name + AFTERWARDS}
            entries.append([key, {"k": "tensor", "i": returned + number}])
        return {"k": "dict", "v": entries}

    def __or__(self, other: Effects) -> Effects:
        inputs = sorted({*self.inputs, *other.inputs})
        return Effects(tuple(inputs), tuple(dict.fromkeys((*self.state, *other.state))))


# Any: whatever a problem's author returns.
def find_effects(
    model: nn.Module, leaves: Sequence[torch.Tensor], call: Callable[[list[torch.Tensor]], Any]
) -> Effects:
    """Call on copies of `leaves`, and find what is written: by torch's count of writes, and by value."""
    given = [leaf.detach().clone() for leaf in leaves]
    held = {name: tensor for name, tensor in named_state(model).items() if not is_lazy(tensor)}
    values = {name: tensor.detach().clone() for name, tensor in held.items()}
    marks = [tensor._version for tensor in (*given, *held.values())]
    call(given)
    now = named_state(model)
    written = [tensor._version != mark for tensor, mark in zip((*given, *held.values()), marks, strict=True)]
    inputs = [
        index
        for index, leaf in enumerate(leaves)
        if written[index] or not (leaf.is_meta or same_values(given[index], leaf))
    ]
    state = [
        name
        for (name, tensor), is_written in zip(held.items(), written[len(given) :], strict=True)
        if name in now
        and (
            is_written
            or now[name] is not tensor
            or not (tensor.is_meta or not is_comparable(tensor) or same_values(tensor, values[name]))
        )
    ]
    return Effects(tuple(inputs), tuple(state))
