"""How an evaluation is to be run: everything here is recorded with every score."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from kernelwright.evaluator.schema.record import Record


class Math(StrEnum):
    """The precision a candidate may use inside; sets the error limit and pins library flags."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class Dtype(StrEnum):
    """What floating tensors of a problem are cast to; `as_is` leaves the problem's own types."""

    AS_IS = "as_is"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Passes(StrEnum):
    """What one call computes, and so what is verified and timed."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward_backward"
    """Also the gradients of floating inputs and of parameters, for secret cotangents."""


class SandboxTier(StrEnum):
    """What stands between a candidate and the host, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    CONFINED = "confined"
    NONE = "none"


class Sanitize(StrEnum):
    """When sanitizers look at a candidate that passed everything else."""

    AUTO = "auto"
    """On a GPU whenever the tool is there; on the CPU not, because it doubles the time of a build."""
    ON = "on"
    OFF = "off"


class Limits(Record):
    """Bounds on one evaluation; seconds of wall time unless said."""

    build_s: float = Field(default=300.0, gt=0)
    """One build, in the build sandbox."""
    load_s: float = Field(default=60.0, gt=0)
    """Importing the candidate and constructing `ModelNew`, builds not counted."""
    call_s: float = Field(default=30.0, gt=0)
    """One call of the candidate beyond ten times the reference's own time."""
    compile_s: float = Field(default=120.0, gt=0)
    """On top for a model's first call, in backends whose kernels are compiled by it."""
    sanitize_s: float = Field(default=120.0, gt=0)
    """Everything the sanitizers do, builds not counted."""
    total_s: float = Field(default=900.0, gt=0)
    """The whole evaluation, builds included."""
    memory_gib: float = Field(default=16.0, gt=0)
    """Host memory of a contestant and everything it starts."""
    processes: int = Field(default=256, ge=8)
    """Tasks (processes and threads) of a contestant."""
    file_mib: int = Field(default=1024, ge=1)
    """Private scratch space of a contestant."""
    output_kib: int = Field(default=256, ge=1)
    """Text kept of a contestant's standard output and error."""


class EvaluationConfig(Record):
    """One evaluation's policy."""

    device: str = "auto"
    """`cpu`, `cuda:N`, several with commas, `cuda` for all GPUs, or `auto`: the backend's kind. Of several
    devices an evaluation gets the least busy one."""
    shapes: str | None = None
    """A name in the problem's `SHAPES`; None means the problem's own constants."""
    passes: Passes = Passes.FORWARD
    dtype: Dtype = Dtype.AS_IS
    math: Math = Math.FP32
    baselines: tuple[Literal["eager", "compile"], ...] = ("eager", "compile")
    """Timings of the reference to take; the headline speedup is against the fastest of them."""
    trials: int = Field(default=7, ge=1, le=100)
    """Verified calls on fresh inputs before timing starts, per weight draw at least one; 7 are one a kind."""
    measure: bool = True
    """Whether to time at all; without it a right candidate is `PASSED` with no speedup."""
    target_ms: float = Field(default=300.0, gt=0)
    """Measured time of the slower side aimed at before the interval is looked at."""
    max_turns: int = Field(default=24, ge=4)
    """Most interleaved turns a side gets."""
    sanitize: Sanitize = Sanitize.AUTO
    """Kernels that are kept are sanitized in any case, wherever the tools exist."""
    counters: bool | None = None
    """Whether a GPU candidate that passed is run once more under ncu, for its hardware counters; None leaves
    that to who asks for the evaluation, and means no."""
    sandbox: SandboxTier | None = None
    """Tier to use; None takes the strongest this machine has. `none` must be asked for by name."""
    limits: Limits = Limits()
    threads: int | None = None
    """CPU threads for torch on both sides; None means the cores this process may use."""
    secret_seed: int | None = None
    """Replaces the run's secret seed, to repeat a run exactly; never set it for candidates you distrust."""
