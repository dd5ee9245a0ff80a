"""The report of a problem's inspection: names of flaws, advice on each, and the record."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from kernelwright.evaluator.schema.config import Dtype, Math
from kernelwright.evaluator.schema.record import Record

SCHEMA_VERSION = 1
"""Raised when a field of `ProblemReport` changes meaning."""


class Severity(StrEnum):
    """The weight of a remark."""

    FLAW = "flaw"
    """Makes scores on this problem doubtful; each is marked."""
    NOTE = "note"
    """Worth knowing; scores remain valid."""


ADVICE: Final = MappingProxyType(
    {
        "malformed": "define Model, get_inputs and, if needed, get_init_inputs",
        "raises": "make Model(*get_init_inputs())(*get_inputs()) run",
        "crashes": "find out what kills the process; nothing can be measured beside it",
        "too_big": "choose smaller --shapes, or a device with more memory",
        "too_slow": "choose smaller --shapes: a reference is called a hundred times",
        "too_small": "choose larger --shapes: what is timed is launching, not computing",
        "no_tensor_output": "return a tensor",
        "empty_output": "return at least one element; there is nothing to compare",
        "varying_output_shape": "return the same shapes for every draw of inputs",
        "nan_output": "keep the answer finite: choose inputs inside the domain",
        "infinite_output": "keep the answer finite: scale inputs or parameters down",
        "near_zero_output": "scale the answer up: under a loose tolerance zeros pass for it",
        "constant_output": "let the answer depend on its inputs: one number passes for it",
        "mean_like_output": "spread the answer: under a loose tolerance one number passes for it",
        "identity": "let the model change its input: returning the input passes",
        "ignores_input": "use every input, or drop it from get_inputs",
        "reads_part_of_input": "use the whole input, or make it smaller",
        "ignores_parameter": "use every parameter, or drop it: it cancels or is never read",
        "ignores_buffer": "a buffer that is never read costs nothing, but says something untrue",
        "default_parameters": "draw them at random: a kernel without scale and shift passes elsewhere",
        "half_precision_suffices": "let the values matter: half precision gives the very same answer",
        "nondeterministic": "draw no random numbers in forward, and call eval() on dropout",
        "varies_in_bits": "nothing: the differences are rounding",
        "depends_on_call_count": "keep no state between calls",
        "fixed_seed": "do not seed inside get_inputs: every trial sees the same numbers",
        "constant_inputs": "draw inputs at random: an answer can be kept from one call to the next",
        "mutates_input": "nothing, if it is meant: what calls leave in their inputs is compared, too",
        "changes_state": "nothing, if it is meant: what calls leave in buffers is compared, too",
        "redundant_computation": "remove the sum over a product: algebra, not a kernel, makes this fast",
        "fixed_work": "move it to __init__: what needs no input can be kept from one call to the next",
        "launch_bound": "expect gains from fewer launches rather than from faster kernels",
        "not_weighed": "nothing: its memory was not known beforehand, as it asks for values while running",
        "no_double_reference": "let the model run in float64, so that errors can be told from rounding",
        "not_all_tried": "nothing: time was up; smaller --shapes are examined in full",
    }
)
"""Advice by the name of a remark."""


class ProblemFlaw(Record):
    name: str
    """A key of `ADVICE`; stable."""
    severity: Severity
    detail: str = ""
    """The observation, with numbers."""

    @property
    def advice(self) -> str:
        return ADVICE[self.name]


def flaw_of(name: str, detail: str) -> ProblemFlaw:
    """A remark that makes scores doubtful."""
    return ProblemFlaw(name=name, severity=Severity.FLAW, detail=detail)


class ProblemReport(Record):
    """The inspection of a problem on one device at one size."""

    schema_version: int = SCHEMA_VERSION
    problem: str
    """Problem id."""
    problem_sha: str
    shapes: str | None = None
    dtype: Dtype = Dtype.AS_IS
    math: Math = Math.FP32
    device: str
    device_name: str = ""
    remarks: tuple[ProblemFlaw, ...] = ()
    guessable: tuple[str, ...] = ()
    """Wrong outputs that an allclose at 1e-2 accepts and our comparison refuses, such as `half_precision`."""
    measured_ms: float | None = None
    """Median time of an eager call with warm inputs; indicative, as nothing is interleaved."""
    estimated_ms: float | None = None
    """Sum of the operations' times at this device's measured rates."""
    memory_bytes: int | None = None
    """Peak memory of one call with inputs and parameters; counted, not measured."""
    flops: int | None = None
    seconds: float = 0.0
    """Wall time of the inspection."""
    evaluator_version: str = ""
    vetted_at: str = ""
    """UTC, ISO 8601."""

    @property
    def flaws(self) -> tuple[ProblemFlaw, ...]:
        """Remarks that make scores doubtful."""
        return tuple(remark for remark in self.remarks if remark.severity is Severity.FLAW)

    @property
    def notes(self) -> tuple[ProblemFlaw, ...]:
        """Remarks that leave scores valid."""
        return tuple(remark for remark in self.remarks if remark.severity is Severity.NOTE)
