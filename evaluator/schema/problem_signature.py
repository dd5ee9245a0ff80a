"""A problem's tensors and operations, known before any of it is run."""

from __future__ import annotations

import math

from kernelwright.evaluator.schema.config import Dtype
from kernelwright.evaluator.schema.record import Record


class TensorFacts(Record):
    """Name, type and shape of a tensor."""

    name: str
    """Name of the argument or parameter, if it has one."""
    dtype: str
    """Element type, such as `float32`."""
    shape: tuple[int, ...]

    def __str__(self) -> str:
        size = f"{self.dtype}{list(self.shape)}"
        return f"{self.name}: {size}" if self.name else size

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class ProblemSignature(Record):
    """A problem under one configuration; facts that need tensors with data are None or empty."""

    problem: str
    problem_sha: str
    shapes: str | None = None
    dtype: Dtype = Dtype.AS_IS
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    parameters: tuple[TensorFacts, ...] = ()
    changed: tuple[str, ...] = ()
    """Inputs and buffers that a call changes, by name: they are compared as outputs are."""
    constant: tuple[str, ...] = ()
    """Inputs that several draws give alike, such as a mask of ones, where that was looked at."""
    bytes_moved: int | None = None
    """Inputs and parameters, as far as the reference reads them, read once, and outputs written once."""
    flops: int | None = None
    """Operations of products, convolutions and attention; a multiply-add is two. None without any."""
