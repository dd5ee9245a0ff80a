"""Outputs of the reference whose inputs and parameters are perturbed by roundoffs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference, copied
from kernelwright.evaluator.schema.errors import ProblemError

_HALF_BYTES: Final = 2
_LEAST_STEP: Final = 2.0**-10


def movable(model: nn.Module, arguments: Arguments) -> bool:
    """Return whether there is anything to perturb: floating inputs, parameters or buffers."""
    tensors = (*arguments.leaves, *model.parameters(), *model.buffers())
    return any(tensor.is_floating_point() for tensor in tensors)


def perturbed(
    reference: Reference,
    model: nn.Module,
    arguments: Arguments,
    roundoff: float,
    draw: int,
    *,
    wide: Callable[[nn.Module, Arguments], Output | None] | None,
) -> list[torch.Tensor]:
    """The outputs when inputs and parameters are perturbed by about a roundoff of random sign.

    `wide` evaluates in float64; None where the reference cannot. Each draw is another perturbation. From 1 on
    they are parts of the roundoff, buffers are perturbed too, and half precision is widened where a
    perturbation would be lost.
    """
    generator = torch.Generator(device=reference.device).manual_seed(20_261_121 + draw)
    sizes = torch.Generator(device=reference.device).manual_seed(20_261_126 + draw)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.element_size() == 1:
            return tensor
        narrow = draw > 0 and tensor.element_size() == _HALF_BYTES
        own = torch.float32 if narrow else tensor.dtype
        made = tensor.detach().to(torch.float64 if wide is not None else own, copy=True)
        for part in torch.split(made.view(-1), policy.CHUNK_ELEMENTS) if made.is_contiguous() else (made,):
            if draw > 0:
                part.mul_(_parts(part, generator).mul_(roundoff).add_(1))
            else:
                part.mul_(_about_one(part, generator, sizes).mul_(roundoff).add_(1))
        return made

    moved_model = copied(model).double() if wide is not None else copied(model)
    for tensor in (*moved_model.parameters(), *(moved_model.buffers() if draw > 0 else ())):
        tensor.data = move(tensor.data)
    moved_arguments = arguments.with_leaves([move(leaf) for leaf in arguments.leaves])
    if wide is not None:
        return (wide(moved_model, moved_arguments) or reference.call(model, arguments)).leaves
    try:
        return reference.call(moved_model, moved_arguments).leaves
    except ProblemError:
        if draw <= 0:
            raise
        # It insists on half precision somewhere.
        return reference.call(model, arguments).leaves


def has_integers(arguments: Arguments) -> bool:
    """Return whether there are integers among the inputs, which roundoffs do not move."""
    return any(_is_integer(leaf) for leaf in arguments.leaves)


def untied(reference: Reference, model: nn.Module, arguments: Arguments, draw: int) -> list[torch.Tensor]:
    """The outputs, rounded down, when no two integers among the inputs are equal.

    Each is moved up by a thousandth at most. Nothing where there are none, or the reference takes no other
    numbers. Each draw is another perturbation.
    """
    if not has_integers(arguments):
        return []
    generator = torch.Generator(device=reference.device).manual_seed(20_261_127 + draw)

    def move(leaf: torch.Tensor) -> torch.Tensor:
        if not _is_integer(leaf):
            return leaf
        noise = torch.rand(leaf.shape, generator=generator, device=leaf.device, dtype=torch.float64)
        return leaf.double() + noise * _LEAST_STEP

    moved = arguments.with_leaves([move(leaf) for leaf in arguments.leaves])
    try:
        output = reference.call(copied(model), moved)
    except ProblemError:
        return []
    return [leaf.floor() if leaf.is_floating_point() else leaf for leaf in output.leaves]


def _is_integer(leaf: torch.Tensor) -> bool:
    return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool)


def _parts(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """From a half to one, to and fro: less would be lost where the reference rounds to 24 bits."""
    shares = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
    return torch.where(shares < 1 / 2, shares - 1, shares)


def _about_one(like: torch.Tensor, signs: torch.Generator, sizes: torch.Generator) -> torch.Tensor:
    """From a half to one and a half, to and fro: were all alike, those of two elements would often cancel."""
    chosen = torch.randint(0, 2, like.shape, generator=signs, device=like.device, dtype=torch.int8)
    about = torch.rand(like.shape, generator=sizes, device=like.device, dtype=torch.float32).add_(0.5)
    return chosen.to(like.dtype).mul_(2).sub_(1).mul_(about)
