"""Limits: multiples of an output's error scale that honest arithmetic stays within."""

from __future__ import annotations

import math
from typing import Final

import torch

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.op_trace import ReductionTerms

HALF_BITS: Final = 16
AS_DRAWN: Final = "as_drawn"
"""The name of trials on the problem's own inputs, the only ones whose outliers are not ours."""
TIMED: Final = "timed"
"""The name of ordinary timed calls that are compared with exact outputs."""
COMPARED_FINELY: Final = (AS_DRAWN, TIMED)
"""Trials in which what stands out excuses no errors elsewhere: their work counts, or is the problem's own."""


def dtype_limit(limit: float, dtype: torch.dtype) -> float:
    """The limit for outputs of a type."""
    bits = torch.finfo(dtype).bits
    if bits < HALF_BITS:
        return min(limit, policy.EIGHT_BIT_LIMIT)
    return min(limit, policy.REDUCED_LIMIT) if bits == HALF_BITS else limit


def precision_limit(overall: float, dtype: torch.dtype, *, is_double: bool) -> float:
    """The limit of the error over a whole output of a type where terms are few, in units of its roundoff.

    Where all of a problem `is_double`, that unit is two roundings.
    """
    if is_double:
        return overall * policy.DOUBLE_PRECISION_SHARE
    return overall if dtype.itemsize > 2 else min(overall, policy.HALF_PRECISION_LIMIT)


def limit(math_policy: str, *, zero_mean: bool, terms: ReductionTerms) -> float:
    """Norm-wise limit as a multiple of the scale.

    Adding so many positive numbers one after another errs about the square root of their number times as
    much as the reference's blocked sums do, even where the result is then centred, as in a softmax or a norm.
    """
    if math_policy != "fp32":
        return policy.REDUCED_LIMIT
    if not terms.computes:
        return policy.EXACT_LIMIT
    summed = min(policy.SUMMED_TERMS * terms.sums, policy.MAX_SUM_TERMS) if terms.sums > 1 else 1
    accumulated = max(
        policy.SEQUENTIAL_FACTOR * math.sqrt(max(terms.products, summed)),
        policy.TRUNCATION_FACTOR * terms.products,
    )
    factor = policy.CONVOLUTION_FACTOR if terms.convolves else 1.0
    if zero_mean and terms.longest > 1:
        most = policy.MAX_PRODUCT_LIMIT if terms.products > 1 else policy.MAX_ZERO_MEAN_LIMIT
        return min(max(factor * policy.ZERO_MEAN_LIMIT, accumulated), most)
    return max(factor * policy.OTHER_LIMIT, accumulated)


def change_limit(terms: ReductionTerms) -> float:
    """Limit of the error of a change between nearby inputs, over a whole output, in roundoffs."""
    least = policy.CONVOLUTION_PRECISION_LIMIT if terms.convolves else policy.PRECISION_LIMIT
    factor = policy.CHANGE_CONVOLUTION_FACTOR if terms.convolves else policy.CHANGE_PRODUCT_FACTOR
    return max(least, factor * math.sqrt(terms.products), policy.CHANGE_SUM_FACTOR * math.sqrt(terms.sums))
