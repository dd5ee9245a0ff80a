"""Finds how much larger a problem's random weights may be while its answers keep their meaning.

The reference draws farther from each mean, and so does a candidate that draws the same
(`ipc.weight_spread`). Draws that may not are told by what becomes of parameters and buffers: numbers of one
sign keep it, shares stay below one, orders and whole numbers stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from kernelwright.evaluator.ipc.model_init import direction
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.weight_spread import Spread
from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.effects import are_equal, is_comparable
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.schema.errors import ProblemError

Enlarged = tuple[Spread, nn.Module]
"""The spread by which a model's random weights exceed those of its seed, and the model."""


def enlarged_models(reference: Reference, seed: int, inputs: list[Arguments]) -> Iterator[Enlarged]:
    """Yield models of a seed with larger weights, the largest first, that answer two inputs as sensibly."""
    answers = None
    for factor in policy.WEIGHT_FACTORS:
        plain = reference.model(seed)
        found = _constructed(reference, seed, factor, named_state(plain))
        if found is None:
            continue
        answers = answers or [reference.call(plain, arguments) for arguments in inputs]
        del plain  # whoever is given the other may need the memory
        if _answers_as_well(reference, found[1], inputs, answers):
            yield found


def has_random_weights(reference: Reference, model: nn.Module) -> bool:
    """Check for floating parameters or buffers that seeds vary."""
    held = named_state(model).items()
    return any(tensor.is_floating_point() and name not in reference.fixed.values for name, tensor in held)


def _constructed(
    reference: Reference, seed: int, factor: float, before: Mapping[str, torch.Tensor]
) -> Enlarged | None:
    """Construct with larger weights; draws whose tensors lose their meaning are kept, by shape."""
    kept: set[tuple[int, ...]] = set()
    while True:
        spread = Spread(factor, tuple(sorted(kept)))
        try:
            model = reference.model(seed, spread=spread)
        except ProblemError:
            return None
        after = named_state(model)
        if after.keys() != before.keys() or all(are_equal(before[name], after[name]) for name in before):
            return None
        lost = {tuple(after[name].shape) for name in before if not _keeps_meaning(before[name], after[name])}
        if not lost:
            return spread, model
        if lost <= kept:
            return None  # they come from draws of other shapes
        kept |= lost


def _keeps_meaning(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Check that larger numbers are still what they were: of one sign, at most one, in order, whole."""
    if not is_comparable(before) or before.shape != after.shape or before.numel() == 0:
        return before.shape == after.shape
    if before.is_complex():
        return bool(after.isfinite().all())
    if not before.is_floating_point():
        return torch.equal(before, after)
    was, now = computable(before.detach()), computable(after.detach())
    if bool(was.isfinite().all()) and not bool(now.isfinite().all()):
        return False
    if bool((was >= 0).all()) or bool((was <= 0).all()):
        if bool((now * was < 0).any()) or bool(((was != 0) & (now == 0)).any()):
            return False
        if bool((was.abs() <= 1).all()) and bool((now.abs() > 1).any()):
            return False  # no share and no decay goes beyond one
    rows_were, rows_are = (each.reshape(-1, each.shape[-1] if each.dim() else 1) for each in (was, now))
    ordered = was.dim() > 0 and was.shape[-1] >= policy.FEWEST_ORDERED and direction(rows_were)
    return not ordered or direction(rows_are) == direction(rows_were)


def _answers_as_well(
    reference: Reference, model: nn.Module, inputs: list[Arguments], wanted: list[Output]
) -> bool:
    """Check that answers are finite where they were, and differ between inputs about as much."""
    try:
        found = [reference.call(model, arguments) for arguments in inputs]
    except ProblemError:
        return False
    for one, other in zip(found, wanted, strict=True):
        if [leaf.shape for leaf in one.leaves] != [leaf.shape for leaf in other.leaves]:
            return False
        if any(
            not bool((now.isfinite() | ~was.isfinite()).all())
            for now, was in zip(_numbers(one), _numbers(other), strict=True)
        ):
            return False
    return all(
        now >= policy.DEPENDENCE_KEPT * was
        for now, was in zip(_differences(*found), _differences(*wanted), strict=True)
    )


def _numbers(output: Output) -> list[torch.Tensor]:
    return [computable(leaf) for leaf in output.leaves]


def _differences(one: Output, other: Output) -> list[float]:
    """Root mean square of each output's difference between two inputs, relative to its size."""
    return [
        float((first - second).abs().nan_to_num(0, 0, 0).square().mean().sqrt())
        / (float(first.abs().nan_to_num(0, 0, 0).square().mean().sqrt()) or 1.0)
        for first, second in ((_wide(a), _wide(b)) for a, b in zip(one.leaves, other.leaves, strict=True))
    ]


def _wide(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.to(torch.complex128 if leaf.is_complex() else torch.float64)
