"""Trials and inputs of timed calls, made by hand."""

import random

import torch

from kernelwright.evaluator.referee.correctness.input_distributions import Starts
from kernelwright.evaluator.referee.correctness.policy import AROUND
from kernelwright.evaluator.referee.correctness.tolerance import Expected, ExpectedLeaf
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial
from kernelwright.evaluator.referee.reference.reference import Arguments, Output
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs

TENSOR = {"k": "tensor", "i": 0}
LOOSE, TIGHT = 192.0, 32.0


def made_trial(name: str, limit: float, values: torch.Tensor | None = None) -> Trial:
    values = torch.randn(8, 64) if values is None else values
    arguments = Arguments([TENSOR], {}, [values])
    output = Output(TENSOR, [values.clone()], [False])
    leaf = ExpectedLeaf(output.leaves[0], values.double(), torch.full((8,), 1e-7))
    expected = Expected(output, [leaf], in_double=True)
    return Trial(name, limit, lambda: SolvedTrial(arguments, expected))


def made_inputs(
    *, values: torch.Tensor | None = None, signed: bool = True, between: tuple[float, float] = AROUND
) -> TimedInputs:
    trials = [made_trial("as_drawn", LOOSE, values), made_trial("zero_mean", TIGHT, values)]
    return TimedInputs(Starts(trials, between, signed), lambda: trials[0].arguments, secret=random.Random(3))
