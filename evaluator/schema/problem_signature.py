"""What a problem is, by its sizes alone: known before anything of it is run."""

from __future__ import annotations

from kernelwright.evaluator.schema.config import Dtype
from kernelwright.evaluator.schema.record import Record


class TensorFacts(Record):
    """One tensor."""

    name: str
    """Of the argument or parameter; empty where it has none."""
    dtype: str
    """Such as `float32`."""
    shape: tuple[int, ...]

    def __str__(self) -> str:
        size = f"{self.dtype}{list(self.shape)}"
        return f"{self.name}: {size}" if self.name else size

    @property
    def elements(self) -> int:
        """How many values it holds."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class ProblemSignature(Record):
    """A problem under one policy. What a reference hides from tensors without data is None or empty."""

    problem: str
    problem_sha: str
    shapes: str | None = None
    dtype: Dtype = Dtype.AS_IS
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    parameters: tuple[TensorFacts, ...] = ()
    bytes_moved: int | None = None
    """Inputs and parameters, as far as the reference looks at them, read once, and outputs written once."""
    flops: int | None = None
    """Counted in products, convolutions and attention; a multiply-add is two. None where there are none."""
