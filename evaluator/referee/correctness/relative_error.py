"""Relative errors that most elements of an output stay below: a few large elements excuse nothing there."""

from __future__ import annotations

import math

import torch

from kernelwright.evaluator.referee.correctness import policy


def typical_error(own: torch.Tensor, moved: torch.Tensor, exact: torch.Tensor, *, eps: float) -> float | None:
    """Relative error of most elements of a reference, or of its response to roundings; None of too few.

    `exact` and the perturbed output `moved` are float64, shape as `own`.
    """
    found = [error for values in (own, moved) if (error := relative_error(values, exact)) is not None]
    return max([*found, eps / 2]) if found else None


def relative_error(values: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Relative error that `BULK_QUANTILE` of the elements do not exceed; None of too few.

    Of a large output some elements are drawn, other ones each time: who knew them would compute those alone.
    """
    values, exact = values.flatten(), exact.flatten()
    if exact.numel() > policy.BULK_SAMPLE:
        generator = torch.Generator(exact.device)
        generator.seed()
        places = torch.randint(exact.numel(), (policy.BULK_SAMPLE,), generator=generator, device=exact.device)
        values, exact = values[places], exact[places]
    values = values.double()
    known = exact.isfinite() & (exact.abs() > policy.SMALLEST_RELATIVE) & values.isfinite()
    errors = (values[known] / exact[known] - 1).abs()
    if len(errors) < policy.FEWEST_IN_BULK:
        return None
    return float(errors.kthvalue(math.ceil(policy.BULK_QUANTILE * len(errors))).values)
