"""Models of the two draws of weights: constants are moved in one, random weights are larger in the other.

The first draw is the one that is timed. Each is given up where the reference does not stand it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.tolerance import relative_scales
from kernelwright.evaluator.referee.correctness.trial_cache import Draw, Trial, count_finite
from kernelwright.evaluator.referee.reference.fixed_state import have_equal_state
from kernelwright.evaluator.referee.reference.larger_weights import enlarged_models
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference
from kernelwright.evaluator.schema.errors import ProblemError


def timed_weights(reference: Reference, seed: int, base: Arguments) -> Draw:
    """Move parameters off their initial values, which a kernel may skip, if the reference stays finite."""
    fixed = reference.fixed
    plain, off = (reference.model(seed, vary=vary) for vary in (False, True))
    if have_equal_state(plain, off):
        return Draw(seed, plain)
    wanted = reference.call(plain, base).leaves
    made = functools.partial(reference.model, seed, vary=True)
    found = fixed.varied(made, lambda model: is_as_finite(reference, model, base, wanted))
    if found is None or have_equal_state(plain, found):
        return Draw(seed, plain)
    return Draw(seed, found, vary=True)


def is_as_finite(reference: Reference, model: nn.Module, base: Arguments, wanted: list[torch.Tensor]) -> bool:
    """Return whether outputs have the wanted shapes, and as many finite elements."""
    try:
        found = reference.call(model, base).leaves
    except ProblemError:
        return False
    return len(found) == len(wanted) and all(
        one.shape == other.shape and count_finite(one) >= count_finite(other)
        for one, other in zip(found, wanted, strict=True)
    )


def enlarged(
    reference: Reference, seed: int, bases: list[Trial], solve: Callable[[nn.Module], Trial]
) -> tuple[Draw, Trial] | None:
    """Make random weights larger, as far as outputs stay about as exact as those of `bases`."""
    usual = relative_scales(bases[0].expected)
    most = [max(policy.MOST_WORSE * scale, policy.EXACT_ENOUGH) for scale in usual]
    for spread, model in enlarged_models(reference, seed, [base.arguments for base in bases]):
        trial = solve(model)
        with contextlib.suppress(ProblemError):
            scales = relative_scales(trial.expected)
            if len(scales) == len(most) and all(map(float.__le__, scales, most)):
                return Draw(seed, model, spread=spread), trial
        trial.forget()
    return None
