"""What a referee asks the driver for, which owns processes, builds, the device lock and the cache."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.messages import (
    A_co,
    Bounds,
    Count,
    Done,
    Line,
    Message,
    Name,
    Number,
    Request,
    Seconds,
    Text,
    message,
)

VERSIONED: Final = "verdict:"
"""Prefix of what is remembered only for the version of evaluator and compiler that found it."""

Role = Literal["candidate", "baseline", "timed", "sanitized", "counted"]
ExitStatus = Annotated[int, Bounds(255, -255)]
Findings = Annotated[list[dict[str, Any]], Bounds(policy.MAX_ITEMS)]


@message
class Started(Message):
    """A process runs; the referee's end of its channel rides on this message."""

    id: Number
    set_up: bool
    """It has opened its device, so that `Setup` must not be sent."""


@message
class Ended(Message):
    """How a process ended, as the operating system says."""

    returncode: ExitStatus | None
    signal: ExitStatus | None
    out_of_memory: bool
    reason: Text
    timed_out: bool
    """The driver ended it, because its evaluation's time was used up."""


@message
class Peeked(Message):
    """Bytes found in a process, in hexadecimal; None where the system lets nobody look."""

    found: Annotated[list[Text], Bounds(policy.MAX_CALLS)] | None


@message
class BuildFinished(Message):
    """The library a contestant asked for, and what the build took."""

    ok: bool
    path: Text
    module_name: Text
    log: Text
    timed_out: bool
    suspect: bool
    """A failure may be the fault of the lean headers it was built with."""
    refused: bool
    """It was not tried: not well formed, or one too many."""
    waited_s: Seconds
    """Waiting for a place or the device, which is not the candidate's time."""
    build_s: Seconds


def unbuilt(why: str, *, refused: bool = False) -> BuildFinished:
    """The answer to a build that nothing came of."""
    return BuildFinished(
        ok=False,
        path="",
        module_name="",
        log=why,
        timed_out=False,
        suspect=False,
        refused=refused,
        waited_s=0.0,
        build_s=0.0,
    )


@message
class DeviceHeld(Message):
    """The device is held as asked."""

    waited_s: Seconds


@message
class Recalled(Message):
    """What was remembered; empty where nothing was."""

    facts: dict[str, Any]


@message
class SymbolsFound(Message):
    """Fields of a `Symbols` record: kernels and imports of all libraries built for a process."""

    symbols: dict[str, Any]


@message
class Missing(Message):
    """Why a tool cannot be used here; empty where it can."""

    missing: Text


@message
class ToolReport(Message):
    """What a tool around a process says of it, and how the process ended."""

    complete: bool
    why: Text
    """What the report lacks, where it is not complete."""
    findings: Findings
    """Texts of errors, each with the status it means."""
    counters: Findings
    """Fields of `KernelCounters`, a kernel each."""
    out_of_memory: bool
    ended: Text


class DriverRequest(Request[A_co]):
    """A request that the driver serves."""

    __slots__ = ()


@message
class Start(DriverRequest[Started]):
    """Start a contestant, or hand over one that was started ahead."""

    role: Role
    tool: Name | None = None
    """A sanitizer or counter tool to run it under."""
    threads: Annotated[int, Bounds(policy.MAX_CALLS, 1)] | None = None
    """Other than the evaluation's own."""
    real_headers: bool = False
    """Build with torch's own headers from now on; grants a second evaluation's time."""


@message
class Expect(DriverRequest[Done]):
    """So many processes will be asked for soon; begin to start them."""

    count: Count


@message
class Kill(DriverRequest[Ended]):
    """End a process with everything it started."""

    id: Number
    ended: bool
    """It hung up: wait a moment for how it ended by itself."""


@message
class Freeze(DriverRequest[Done]):
    """Stop every task of a process."""

    id: Number


@message
class Thaw(DriverRequest[Done]):
    """Let a process run again."""

    id: Number


@message
class Peek(DriverRequest[Peeked]):
    """Read memory of a frozen process: pairs of address and length."""

    id: Number
    places: Annotated[list[tuple[Number, Number]], Bounds(policy.MAX_CALLS)]


@message
class Build(DriverRequest[BuildFinished]):
    """Build what a process asked for; the request is hostile and has been checked once."""

    id: Number
    request: Any


@message
class EnterStage(DriverRequest[Done]):
    """The evaluation enters a stage."""

    stage: Name


@message
class Hold(DriverRequest[DeviceHeld]):
    """Wait for the device, for oneself or shared with others that do not time."""

    exclusive: bool
    anew: bool
    """Give it back first, so that those who wait come before."""


@message
class Release(DriverRequest[Done]):
    """Give the device back."""


@message
class Recall(DriverRequest[Recalled]):
    """Look up what was remembered of this problem and policy or, with `about`, of the device."""

    about: Line


@message
class Remember(DriverRequest[Done]):
    """Keep facts under the key that `Recall` uses."""

    about: Line
    facts: dict[str, Any]


@message
class FindSymbols(DriverRequest[SymbolsFound]):
    """Read the symbols of what was built for a process."""

    id: Number


@message
class FindSanitizers(DriverRequest[Missing]):
    """Ask what the sanitizers lack here."""


@message
class FindCounters(DriverRequest[Missing]):
    """Ask what the counter tool lacks here."""


@message
class ReadReport(DriverRequest[ToolReport]):
    """End a process under a tool and read the tool's report."""

    id: Number
    wait_s: Seconds
    """How long the process may take to end by itself."""


@message
class Begin(DriverRequest[Done]):
    """An inspection begins to run the problem: from here on, whatever happens is the problem's doing."""
