"""The settings of an evaluation, all of which are recorded with every score."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from kernelwright.evaluator.schema.record import Record

TERMS: Final = ("shapes", "dtype", "math", "passes", "baselines", "trials", "sanitize", "measure")
"""Settings that say what a score measures. The others guard the machine and belong to its operator."""


class Math(StrEnum):
    """The precision a candidate may compute in; sets the tolerance and fixes library flags."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class Dtype(StrEnum):
    """The type a problem's floating tensors are cast to; `as_is` keeps its own types."""

    AS_IS = "as_is"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def torch_name(self) -> str:
        """Its name in torch; empty for `as_is`."""
        return {"as_is": "", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[self]


class Passes(StrEnum):
    """The passes one call computes, which are verified and timed together."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward_backward"
    """Also the gradients of floating inputs and of parameters, for secret cotangents."""


class SandboxTier(StrEnum):
    """The isolation between a candidate and the host, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    CONFINED = "confined"
    NONE = "none"


class Sanitize(StrEnum):
    """When sanitizers run on a candidate that passed everything else."""

    AUTO = "auto"
    """On a GPU where the tool is installed; not on the CPU, where it doubles the time of a build."""
    ON = "on"
    ALL = "all"
    """Also, on a GPU, with the tools whose findings are remarks: initcheck and synccheck."""
    OFF = "off"


class Limits(Record):
    """Limits of one evaluation; times are wall time in seconds."""

    build_s: float = Field(default=300.0, gt=0)
    """One build, in the build sandbox."""
    load_s: float = Field(default=60.0, gt=0)
    """Importing the candidate and constructing `ModelNew`, builds not counted."""
    call_s: float = Field(default=30.0, gt=0)
    """One call of the candidate, on top of ten times the reference's time."""
    compile_s: float = Field(default=120.0, gt=0)
    """Additional time for a model's first call, in backends that compile kernels then."""
    sanitize_s: float = Field(default=120.0, gt=0)
    """All sanitizer runs, builds not counted."""
    total_s: float = Field(default=900.0, gt=0)
    """The whole evaluation, builds included."""
    memory_gib: float = Field(default=16.0, gt=0)
    """Host memory of a contestant and all its processes."""
    processes: int = Field(default=256, ge=8)
    """Tasks (processes and threads) of a contestant."""
    file_mib: int = Field(default=1024, ge=1)
    """Private scratch space of a contestant."""
    output_kib: int = Field(default=256, ge=1)
    """Standard output and error kept of a contestant."""


class EvaluationConfig(Record):
    """The settings of one evaluation."""

    device: str = "auto"
    """cpu, cuda:N, several with commas, cuda for all GPUs, or auto: the backend's kind. Of several devices an
    evaluation gets the least busy one."""
    shapes: str | None = None
    """A name in the problem's SHAPES. Unset: the problem's own sizes."""
    passes: Passes = Passes.FORWARD
    """Verify and time the gradients of inputs and parameters too, or outputs only (the default)."""
    dtype: Dtype = Dtype.AS_IS
    """Cast the problem's floating tensors; as_is keeps their types."""
    math: Math = Math.FP32
    """Precision a candidate may compute in; sets the tolerance."""
    baselines: tuple[Literal["eager", "compile"], ...] = ("eager", "compile")
    """Timings of the reference to take; the headline speedup is against the fastest."""
    trials: int = Field(default=7, ge=1, le=100)
    """Most verified calls under the first draw of weights; 7 use all kinds of values. Calls under the second
    draw, that vary constant inputs, or that tell narrow operands, come on top."""
    measure: bool = True
    """Measure speed (the default), or verify only: a correct candidate is then PASSED with no speedup."""
    target_ms: float = Field(default=300.0, gt=0)
    """Measured time, of candidate or baseline, to reach before the interval is first computed. Not needed
    where calls are queued and their claims agree with the clock."""
    max_turns: int = Field(default=24, ge=4)
    """Most interleaved turns of the candidate and of a baseline each."""
    sanitize: Sanitize = Sanitize.AUTO
    """Run sanitizers on what passed; auto does so on a GPU, and for kernels that are saved."""
    counters: bool | None = None
    """Read a GPU's hardware counters with ncu for what passed. Unset: where a next turn sees them."""
    sandbox: SandboxTier | None = None
    """Sandbox tier; none protects nothing. Unset: the strongest this machine has."""
    limits: Limits = Limits()
    """Bound on one evaluation, such as total_s=60 or memory_gib=4; may be repeated."""
    threads: int | None = None
    """CPU threads for torch in both processes. Unset: the cores this process may use."""
    secret_seed: int | None = None
    """Replaces the secret seed, to repeat a run exactly; never set it for candidates you distrust."""

    def on_terms_of(self, score: EvaluationConfig, terms: Iterable[str] = TERMS) -> EvaluationConfig:
        """These settings with the terms of a score, which may be a stranger's.

        Sandbox, limits, seed, threads and device stay: a stranger's could undo this machine's protection.
        """
        return self.model_copy(update={name: getattr(score, name) for name in terms})
