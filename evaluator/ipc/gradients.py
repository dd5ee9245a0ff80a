"""Forward and backward as one call: gradients beside outputs, for secret cotangents beside the inputs.

Referee and contestant differentiate by the same few lines. What is asked for is decided by the reference
alone: which outputs carry a gradient, and which inputs and parameters one arrives at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from kernelwright.evaluator.ipc.tensor_tree import flatten

OUTPUT = "output"
"""Key of the call's own value in the answer, beside the gradients."""
_WRAPPED = "_orig_mod."
"""Prefix that torch.compile adds to names."""


class NoGradient(RuntimeError):
    """A gradient that the reference has is missing, or belongs to nothing that is known."""


@dataclass(frozen=True, slots=True)
class Backward:
    """The gradients that are asked for."""

    graded: tuple[int, ...]
    """Tensors of the output that get a cotangent."""
    inputs: tuple[int, ...]
    """Tensors among the arguments whose gradients are asked for."""
    parameters: tuple[str, ...]
    """Parameters whose gradients are asked for, as the reference names them."""
    shapes: tuple[tuple[int, ...], ...]
    """Of those parameters."""

    def as_message(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_message(cls, fields: dict[str, Any]) -> Backward:
        """Back from JSON."""
        shapes = tuple(map(tuple, fields["shapes"]))
        return cls(**{name: tuple(listed) for name, listed in fields.items()} | {"shapes": shapes})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the gradients in the returned dictionary."""
        return (
            *(f"gradient of input {index}" for index in self.inputs),
            *(f"gradient of {name}" for name in self.parameters),
        )

    def leaf(self, index: int, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor to call with: where its gradient is asked for, a leaf of a graph of its own."""
        return tensor.detach().requires_grad_() if index in self.inputs else tensor

    def call(
        self,
        model: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        leaves: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
    ) -> dict[str, Any]:
        """Call, then differentiate; `leaves` are those of the arguments, in order.

        Raises:
            NoGradient: an output, input or parameter takes no part in a gradient, or a parameter is missing.
        """
        with torch.enable_grad():
            value = model(*args, **kwargs)
            _, outputs = flatten(value, numbers_as_tensors=True)
            graded = [_graded(outputs, index) for index in self.graded]
            sources = [*(leaves[index] for index in self.inputs), *self._parameters(model)]
            gradients = torch.autograd.grad(graded, sources, list(cotangents), allow_unused=True)
        answer: dict[str, Any] = {OUTPUT: value}
        for name, gradient in zip(self.names, gradients, strict=True):
            if gradient is None:
                raise NoGradient(f"no {name}: the output does not depend on it, or its backward is cut off")
            answer[name] = gradient
        return answer

    def _parameters(self, model: Any) -> list[torch.Tensor]:
        """A model's parameters by the reference's names, or else by position among equal shapes."""
        if not self.parameters:
            return []
        own = named_parameters(model)
        if all(name in own for name in self.parameters):
            found = [own[name] for name in self.parameters]
        else:
            found = list(own.values())
        if [tuple(tensor.shape) for tensor in found] != list(self.shapes):
            raise NoGradient(
                f"the parameters do not line up with the reference's ({', '.join(self.parameters)}), by name "
                "or by shape: their gradients cannot be asked for"
            )
        return found


def named_parameters(model: Any) -> dict[str, torch.Tensor]:
    """Parameters that want a gradient, as their model names them."""
    if not isinstance(model, nn.Module):
        return {}
    return {
        name.removeprefix(_WRAPPED): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def _graded(outputs: list[torch.Tensor], index: int) -> torch.Tensor:
    if index >= len(outputs) or not outputs[index].requires_grad:
        which = f"output {index}" if len(outputs) > 1 else "the output"
        raise NoGradient(f"{which} does not require grad: no backward")
    return outputs[index]
