"""Describes a problem from one call on tensors without data: nothing is computed, at any size."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from kernelwright.evaluator.ipc.referee_messages import DescribeProblem
from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.constant_inputs import ConstantInputs
from kernelwright.evaluator.referee.reference.flop_counter import OpCounter, tensors
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference
from kernelwright.evaluator.schema.errors import ProblemError

_HIDDEN = (ProblemError, RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError, IndexError)
"""Exceptions of a model that asks a tensor without data for its values."""


def warm_up() -> None:
    """Import what the first call on such a tensor imports (seconds of it), so that children find it there."""
    torch.nn.functional.gelu(torch.empty(2, device="meta"))


def describe(asked: DescribeProblem) -> dict[str, Any]:  # Any: JSON
    """The fields of a `Description`, as far as they can be told.

    Raises:
        ProblemError: the problem cannot be imported.
    """
    counter = OpCounter()
    meta = torch.device("meta")
    found: dict[str, Any] = {}
    with meta:
        reference = Reference(asked.problem, asked.source, asked.overrides, device=meta, dtype=asked.dtype)
        try:
            model, arguments = reference.model(0), reference.inputs(0)
            found["inputs"] = _inputs(model, arguments)
            found["parameters"] = [_facts(name, tensor) for name, tensor in model.named_parameters()]
            output = counter.follow(model, arguments)
            found["outputs"] = [_facts("", leaf) for leaf in tensors(output)]
            found["bytes_moved"] = counter.work.read_bytes + counter.work.written_bytes
            found["flops"] = counter.work.flops or None
            changed = _named(found["inputs"], reference.effects.inputs)
            found["changed"] = [*changed, *reference.effects.state]
        except _HIDDEN:
            return found
    found["constant"] = _constant(asked, found["inputs"])
    return found


def _constant(asked: DescribeProblem, inputs: list[dict[str, Any]]) -> list[str]:
    """Names of inputs that several draws give alike; none where drawing takes long."""
    if sum(math.prod(tensor["shape"]) for tensor in inputs) > policy.DRAWN_ELEMENTS:
        return []
    device = torch.device("cpu")
    reference = Reference(asked.problem, asked.source, asked.overrides, device=device, dtype=asked.dtype)
    seeds = iter(range(1, 1 << 16))
    constant = ConstantInputs.of(reference.inputs(0).leaves, lambda: reference.inputs(next(seeds)).leaves)
    return _named(inputs, constant.found)


def _inputs(model: nn.Module, arguments: Arguments) -> list[dict[str, Any]]:
    """Inputs by the names that `forward` gives them, where each argument is one tensor."""
    args, kwargs = arguments.values()
    names = [*inspect.signature(model.forward).parameters]
    if len(args) <= len(names) and all(isinstance(value, torch.Tensor) for value in args):
        named = [*zip(names, args, strict=False), *kwargs.items()]
        return [_facts(name, value) for name, value in named if isinstance(value, torch.Tensor)]
    return [_facts("", leaf) for leaf in arguments.leaves]


def _named(inputs: list[dict[str, Any]], places: Iterable[int]) -> list[str]:
    return [inputs[index]["name"] or f"input {index}" for index in places]


def _facts(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"name": name, "dtype": dtype, "shape": list(tensor.shape)}
