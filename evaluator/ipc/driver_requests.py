"""Requests of a referee to the driver, which owns processes, builds, the device lock and the cache."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.messages import (
    A_co,
    Bounds,
    Count,
    Done,
    Fields,
    Line,
    Message,
    Name,
    Number,
    Records,
    Request,
    Seconds,
    Text,
    Threads,
)

VERSIONED: Final = "verdict:"
"""Prefix of what is remembered only for the version of evaluator and compiler that found it."""

Role = Literal["candidate", "baseline", "timed", "sanitized", "counted"]
ExitStatus = Annotated[int, Bounds(255, -255)]


class Started(Message):
    """A process runs; the referee's end of its channel rides on this message."""

    id: Number
    set_up: bool
    """It has opened its device, so that `Setup` must not be sent."""


class Ended(Message):
    """The end of a process, as the operating system tells it."""

    returncode: ExitStatus | None
    signal: ExitStatus | None
    out_of_memory: bool
    reason: Text
    timed_out: bool
    """The driver ended it, because its evaluation's time was used up."""


class Paused(Message):
    """The seconds for which a referee and its workers were stopped while others timed, in all."""

    seconds: Seconds


class Peeked(Message):
    """Bytes found in a process, in hexadecimal; None where the system lets nobody look."""

    found: Annotated[list[Text], Bounds(policy.MAX_CALLS)] | None
    shared: bool
    """A place lies in a file's memory or in shared memory, as far as the system tells."""


class MemoryOpened(Message):
    """A process's memory, if the system lets it be read: a descriptor for reading rides on this message."""

    opened: bool


class FreezerOpened(Message):
    """A process's freezer, where a referee may use it at once: two descriptors ride on this message.

    A word written to the first stops its tasks or lets them run; the second says when all have stopped.
    """

    opened: bool
    stop: Name = ""
    go: Name = ""
    stopped: Name = ""


class BuildFinished(Message):
    """The library a contestant asked for, and what the build took."""

    ok: bool
    path: Text = ""
    module_name: Text = ""
    log: Text
    timed_out: bool = False
    suspect: bool = False
    """A failure may be the fault of the lean headers it was built with."""
    refused: bool = False
    """It was not tried: not well formed, or one too many."""
    waited_s: Seconds = 0.0
    """Waiting for a place or the device, which is not the candidate's time."""
    build_s: Seconds = 0.0


class DeviceHeld(Message):
    """The device is held as asked."""

    waited_s: Seconds


class Facts(Message):
    """A record as JSON: facts remembered, empty where none were, or the fields of a `Symbols`."""

    facts: Fields


class Missing(Message):
    """Why a tool cannot be used here; empty where it can."""

    missing: Text


class ToolReport(Message):
    """The report of a tool around a process, and the end of that process."""

    complete: bool
    why: Text
    """Reason why the report is not complete; else empty."""
    findings: Records
    """Texts of errors, each with the status it means."""
    counters: Records
    """Fields of `KernelCounters`, a kernel each."""
    out_of_memory: bool
    ended: Text


class DriverRequest(Request[A_co]):
    """A request that the driver serves."""


class Start(DriverRequest[Started]):
    """Start a contestant, or hand over one that was started ahead."""

    role: Role
    tool: Name | None = None
    """A sanitizer or counter tool to run it under."""
    threads: Threads | None = None
    """Other than the evaluation's own."""
    full_headers: bool = False
    """Build with torch's own headers from now on; grants a second evaluation's time."""


class ProcessRequest(DriverRequest[A_co]):
    """A request about a process of this referee."""

    id: Number


class Expect(DriverRequest[Done]):
    """So many processes will be asked for soon, beyond those kept ready; begin to start them."""

    count: Count
    tool: Name | None = None
    """The sanitizer that they will run under."""


class Kill(ProcessRequest[Ended]):
    """End a process with everything it started."""

    ended: bool
    """It hung up: wait a moment for how it ended by itself."""


class Freeze(ProcessRequest[Done]):
    """Stop every task of a process."""


class Thaw(ProcessRequest[Done]):
    """Let a process run again."""


class Peek(ProcessRequest[Peeked]):
    """Read memory of a frozen process: pairs of address and length."""

    places: Annotated[list[tuple[Number, Number]], Bounds(policy.MAX_CALLS)]


class OpenMemory(ProcessRequest[MemoryOpened]):
    """Open a process's memory for reading, to look at it at once when the process answers."""


class OpenFreezer(ProcessRequest[FreezerOpened]):
    """Open what stops a process's tasks, to freeze and thaw it without a question each time."""


class BuildLibrary(ProcessRequest[BuildFinished]):
    """Build what a process asked for; the request is hostile and has been checked once."""

    request: Any


class EnterStage(DriverRequest[Done]):
    """The evaluation enters a stage."""

    stage: Name


class RecordStep(DriverRequest[Done]):
    """A step of the evaluation is over; it becomes a span of the trace."""

    name: Name
    seconds: Seconds


class Hold(DriverRequest[DeviceHeld]):
    """Wait for the device, for oneself or shared with others that do not time."""

    exclusive: bool
    anew: bool
    """Give it back first, so that those who wait come before."""
    after_tools: bool = False
    """With `exclusive`: wait for the end of calls under a tool, which are stopped otherwise."""


class HoldForTools(DriverRequest[DeviceHeld]):
    """Share the device for calls under a tool: the end of such a call may have to be awaited."""


class Release(DriverRequest[Done]):
    """Give the device back."""


class Recall(DriverRequest[Facts]):
    """Look up what was remembered of this problem and policy or, with `about`, of the device."""

    about: Line


class Remember(DriverRequest[Done]):
    """Keep facts under the key that `Recall` uses."""

    about: Line
    facts: Fields


class FindPauses(DriverRequest[Paused]):
    """Ask how long the referee and its workers were stopped, which is nobody's fault."""


class FindSymbols(ProcessRequest[Facts]):
    """Read the symbols of what was built for a process."""


class FindSanitizers(DriverRequest[Missing]):
    """Ask what the sanitizers lack here."""


class FindCounters(DriverRequest[Missing]):
    """Ask what the counter tool lacks here."""


class ReadReport(ProcessRequest[ToolReport]):
    """End a process under a tool and read the tool's report."""

    wait_s: Seconds
    """Time that the process may take to end by itself."""


class Begin(DriverRequest[Done]):
    """An inspection begins to run the problem: from here on, whatever happens is the problem's doing."""
