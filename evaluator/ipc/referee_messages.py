"""Requests of the driver to a referee, and their answers.

A referee runs the problem's code, though never a candidate's, so its answers are decoded within bounds and
validated as records; a problem can spoil its own referee and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kernelwright.evaluator.ipc.messages import (
    A_co,
    Bounds,
    Fields,
    Message,
    Name,
    Request,
    Seconds,
    Text,
    Texts,
    Threads,
)
from kernelwright.evaluator.schema.evaluation import Status


class Refused(Message):
    """The request could not be carried out; answers any."""

    reason: Literal["device_full", "problem", "crash"]
    """The device lacks memory, and others may be why; the problem does not run here; the referee failed."""
    text: Text


class Opened(Message):
    """A problem is prepared: inputs drawn, expected outputs computed, tolerances derived."""

    flaws: Texts
    """Flaws of the problem that showed on the way."""
    device_name: Name
    torch: Name
    cuda: Name
    free_share: Annotated[float, Bounds(1)]
    """Share of a GPU's memory that is free now; 1 for a CPU."""


class CandidateEvaluated(Message):
    """The evaluation of one candidate: fields of an `Evaluation`, whose docstrings explain them."""

    status: Name
    stage: Name
    detail: Text
    traceback: Text
    notes: Texts
    verification: Fields | None = None
    measurement: Fields | None = None
    sanitization: Fields | None = None
    plausibility: Fields | None = None
    attribution: Fields | None = None
    counters: Fields | None = None

    @property
    def speedup(self) -> Any:  # Any: validated as a field of an Evaluation
        """The measured speedup; None unless the candidate passed."""
        return self.measurement["speedup"] if self.measurement and self.status == Status.PASSED else None


class Sanitized(Message):
    """Fields of a `Sanitization`."""

    sanitization: Fields


class ProblemFound(Message):
    """Fields of a `ProblemReport` or `ProblemSignature`, from the child that looked; `ChildEnded` follows."""

    found: Fields


class ChildEnded(Message):
    """The child that looked at a problem ended, with an exit status or by a signal."""

    code: Annotated[int, Bounds(255, -255)]


class RefereeRequest(Request[A_co]):
    """A request that a referee serves."""


class ProblemRequest(RefereeRequest[A_co]):
    """A request that begins with a problem."""

    problem: Text
    """The problem's name."""
    source: Text
    overrides: Fields
    threads: Threads


class Open(ProblemRequest[Opened]):
    """Prepare a problem; once, before any candidate."""

    config: Fields
    """Fields of an `EvaluationConfig`."""
    device: Name
    others_evicted: bool
    """Others have made room on the device."""


class EvaluateCandidate(RefereeRequest[CandidateEvaluated]):
    """Evaluate one candidate."""

    source: Text
    compile_s: Seconds
    """Time on top for a model's first call, because it compiles kernels."""
    others_evicted: bool


class SanitizeCandidate(RefereeRequest[Sanitized]):
    """Run the sanitizers on a candidate that passed."""

    source: Text


class InspectProblem(ProblemRequest[ProblemFound | ChildEnded]):
    """Look for flaws in a problem, in a child process; `ChildEnded` comes last, whatever came before."""

    config: Fields
    device: Name


class DescribeProblem(ProblemRequest[ProblemFound | ChildEnded]):
    """Find a problem's inputs, outputs and parameters without computing anything; answered likewise."""

    dtype: Name
