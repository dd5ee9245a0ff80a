"""What the driver asks a referee, and what it answers.

A referee runs the problem's code, though never a candidate's, so its answers are decoded within bounds and
validated as records; a problem can spoil its own referee and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.messages import (
    A_co,
    Bounds,
    Message,
    Name,
    Request,
    Seconds,
    Text,
    message,
)

Fields = dict[str, Any]
"""A record as JSON; the driver validates it where it is used."""
Names = Annotated[list[Name], Bounds(policy.MAX_ITEMS)]
Texts = Annotated[list[Text], Bounds(policy.MAX_ITEMS)]


@message
class NoRoom(Message):
    """The device lacks memory, and others may be why; answers any request."""

    message: Text


@message
class UnfitProblem(Message):
    """The problem does not run here; answers any request."""

    message: Text


@message
class Crashed(Message):
    """The referee itself failed; answers any request."""

    message: Text


@message
class Opened(Message):
    """A problem is prepared: inputs drawn, expected outputs computed, tolerances derived."""

    flaws: Names
    """Flaws of the problem that showed on the way."""
    device_name: Name
    torch: Name
    cuda: Name


@message
class CandidateEvaluated(Message):
    """The evaluation of one candidate: fields of an `Evaluation`, whose docstrings explain them."""

    status: Name
    stage: Name
    detail: Text
    traceback: Text
    notes: Texts
    verification: Fields | None
    measurement: Fields | None
    sanitization: Fields | None
    plausibility: Fields | None
    attribution: Fields | None
    counters: Fields | None


@message
class Sanitized(Message):
    """Fields of a `Sanitization`."""

    sanitization: Fields


@message
class Inspected(Message):
    """Fields of a `ProblemReport`, sent by the child that ran the problem; `ChildEnded` follows."""

    found: Fields


@message
class Described(Message):
    """Fields of a `ProblemSignature`, sent by the child that ran the problem; `ChildEnded` follows."""

    found: Fields


@message
class ChildEnded(Message):
    """The child that looked at a problem ended, with an exit status or by a signal."""

    code: Annotated[int, Bounds(255, -255)]


class RefereeRequest(Request[A_co]):
    """A request that a referee serves."""

    __slots__ = ()


@message
class Open(RefereeRequest[Opened]):
    """Prepare a problem; once, before any candidate."""

    problem: Text
    """The problem's name."""
    source: Text
    overrides: Fields
    config: Fields
    """Fields of an `EvaluationConfig`."""
    device: Name
    threads: Annotated[int, Bounds(policy.MAX_CALLS, 1)]
    alone: bool
    """Others have made room on the device."""


@message
class EvaluateCandidate(RefereeRequest[CandidateEvaluated]):
    """Evaluate one candidate."""

    source: Text
    compile_s: Seconds
    """What a model's first call may take on top, because it compiles kernels."""
    alone: bool


@message
class SanitizeCandidate(RefereeRequest[Sanitized]):
    """Run the sanitizers on a candidate that passed."""

    source: Text


@message
class InspectProblem(RefereeRequest[Inspected | ChildEnded]):
    """Look for flaws in a problem, in a child process; `ChildEnded` comes last, whatever came before."""

    problem: Text
    source: Text
    overrides: Fields
    config: Fields
    device: Name
    threads: Annotated[int, Bounds(policy.MAX_CALLS, 1)]


@message
class DescribeProblem(RefereeRequest[Described | ChildEnded]):
    """Find a problem's inputs, outputs and parameters without computing anything; answered likewise."""

    problem: Text
    source: Text
    overrides: Fields
    dtype: Name
    threads: Annotated[int, Bounds(policy.MAX_CALLS, 1)]
