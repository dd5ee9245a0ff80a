"""Messages between a referee and a contestant, or its baseline, which speaks the same protocol.

The contestant does what it is asked: all it receives comes from the referee. The referee trusts nothing it
receives: an answer is a claim, decoded within bounds, and README.md says what becomes of each.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kernelwright.evaluator.ipc import policy
from kernelwright.evaluator.ipc.messages import (
    A_co,
    Bounds,
    Count,
    Done,
    Line,
    Message,
    Milliseconds,
    Name,
    Number,
    Report,
    Request,
    Text,
    message,
)

Tree = dict[str, Any]
"""The structure of a value; see tensor_tree."""
Slot = dict[str, Any]
"""A tensor's place in shared memory; see tensor_layout."""
Slots = Annotated[list[Slot], Bounds(policy.MAX_ITEMS)]


@message
class Listening(Message):
    """Said once by a contestant that has imported torch, before any request."""


@message
class Failed(Message):
    """The request raised; answers any request."""

    type: Name
    """The exception's class."""
    message: Report
    traceback: Report
    """Its end, where it is longer."""
    out_of_memory: bool
    compiling: bool
    """True where a kernel language's compiler raised it."""


@message
class Queued(Message):
    """All calls of a run are in the device's queue, behind its gate; comes before `Ran`."""


@message
class Ran(Message):
    """The calls of a run are over."""

    inner_ms: Milliseconds
    """On the contestant's own stopwatch, for the calls after the lead."""
    where: Any
    """Address and strides in bytes of each output of each call; empty where memory cannot be looked at."""


@message
class Collected(Message):
    """Outputs lie in their slots, unless there is a complaint."""

    kind: Literal["", "shape", "dtype"]
    complaint: Line


@message
class Profiled(Message):
    """What torch's profiler saw during one call, longest first."""

    events: Annotated[list[tuple[Name, Report, Milliseconds]], Bounds(policy.MAX_EVENTS)]
    """Kind (`kernel`, `operator`, `call`), name and milliseconds."""


@message
class Built(Message):
    """The referee's answer to `RequestBuild`."""

    ok: bool
    path: Text
    """The library, as the contestant sees it."""
    module_name: Text
    log: Text


@message
class RequestBuild(Request[Built]):
    """A contestant's only request, sent instead of an answer: build a library outside its sandbox."""

    request: Any
    """The fields of a `BuildRequest`, checked by the referee and by the driver."""


class ContestantRequest(Request[A_co]):
    """A request that a contestant serves."""

    __slots__ = ()


@message
class Setup(ContestantRequest[Done]):
    """Open the device and fix what all computations share; the first request."""

    device: Name
    threads: Annotated[int, Bounds(policy.MAX_CALLS, 1)]
    math: Name
    sharing: Name | None
    """The device that shared memory lies on, where it is another."""


@message
class Attach(ContestantRequest[Done]):
    """Map the blocks whose descriptors ride on this message; they are numbered on from those there are."""

    blocks: Annotated[list[dict[str, Any]], Bounds(policy.MAX_ITEMS)]


@message
class Load(ContestantRequest[Done]):
    """Import source as a module that defines a class."""

    source: Text
    class_name: Name
    overrides: dict[str, Any]
    """Constants of the module to replace."""


@message
class Construct(ContestantRequest[Done]):
    """Make a model of a class under a seed, then give it the reference's state where there is one."""

    class_name: Name
    model: Name
    """The name that later messages call it by."""
    seed: Number
    vary: bool
    """Move constant parameters off their constants."""
    args: Tree
    kwargs: Tree
    slots: Slots
    """The tensors of the arguments, then those of the state."""
    state: Annotated[list[Text], Bounds(policy.MAX_ITEMS)] | None
    """Names of the state's tensors."""
    dtype: Name
    """Empty to leave the model's own."""
    compile: bool


@message
class LayOut(ContestantRequest[Done]):
    """Make views of shared memory for the arguments and outputs of `count` calls."""

    layout: Name
    count: Count
    args: Tree
    kwargs: Tree
    input_slots: Slots
    output_slots: Slots
    output_tree: Tree
    private: bool
    """Copy arguments into allocations of exactly their size."""
    backward: dict[str, Any] | None
    """The gradients asked for."""


@message
class MakeReady(ContestantRequest[Done]):
    """Note the model's state and make arguments for the next run, before any clock runs."""

    layout: Name
    model: Name
    first: Count
    count: Count
    restore: bool


@message
class Run(ContestantRequest[Ran]):
    """Make prepared calls. The referee's clock runs from this message, or from its gate, to the answer."""

    layout: Name
    model: Name
    first: Count
    count: Count
    lead: Count
    """The first calls, which are not on the contestant's stopwatch."""
    restore: bool
    ready: bool
    """`MakeReady` came before."""
    gate_block: Count | None
    """The block whose first word the calls wait for; None without a gate."""
    gate_value: Number
    """The value that word has to reach."""


@message
class Stain(ContestantRequest[Done]):
    """Leave NaN in on-chip memory, where kernels may read what they have not written."""


@message
class Collect(ContestantRequest[Collected]):
    """Copy what the last run returned into its slots, beginning with those of call `first`."""

    layout: Name
    first: Count


@message
class Restore(ContestantRequest[Done]):
    """Put back the model's state that was noted before the last run."""


@message
class Profile(ContestantRequest[Profiled]):
    """Make one call under torch's profiler."""

    layout: Name
    model: Name


@message
class CountCounters(ContestantRequest[Done]):
    """Make one call between profiler start and stop, for the tool around the process."""

    layout: Name
    model: Name


@message
class SetThreads(ContestantRequest[Done]):
    """Compute with so many threads from now on."""

    count: Annotated[int, Bounds(policy.MAX_CALLS, 1)]


@message
class Finish(ContestantRequest[Done]):
    """End in good order, as tools that report at the end need it."""
