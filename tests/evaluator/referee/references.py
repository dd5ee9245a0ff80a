"""References of problems given as text, and their secret trials, on the CPU."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness import policy
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference


def reference_of(source: str, dtype: str = "as_is") -> Reference:
    return Reference("p", source, {}, device=torch.device("cpu"), dtype=dtype)


def call_of(forward: Callable[..., object], *leaves: torch.Tensor) -> tuple[nn.Module, Arguments]:
    """A model of a function of tensors, and its arguments."""

    class Model(nn.Module):
        def forward(self, *arguments: torch.Tensor) -> object:
            return forward(*arguments)

    tree = {"k": "list", "v": [{"k": "tensor", "i": index} for index in range(len(leaves))]}
    return Model(), Arguments(tree, {"k": "dict", "v": []}, list(leaves))


def pool_of(
    problem: Reference | str,
    seed: int,
    *,
    math: str = "fp32",
    memory_bytes: int = policy.SOLVED_TRIALS_BYTES,
) -> TrialPool:
    """The trials of a reference, or of a problem's text."""
    reference = problem if isinstance(problem, Reference) else reference_of(problem)
    return TrialPool(reference, math=math, secret=random.Random(seed), memory_bytes=memory_bytes)
