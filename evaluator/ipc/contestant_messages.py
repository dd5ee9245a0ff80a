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
    Fields,
    Line,
    Message,
    Milliseconds,
    Name,
    Number,
    Records,
    Report,
    Request,
    Text,
    Texts,
    Threads,
)

Tree = Fields
"""The structure of a value; see tensor_tree."""


class Listening(Message):
    """Said once by a contestant that has imported torch, before any request."""


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


class Queued(Message):
    """All calls of a run are in the device's queue, behind its gate; on a CPU, the process waits at the gate.
    Comes before `Ran`."""


class Ran(Message):
    """The calls of a run are over."""

    inner_ms: Milliseconds
    """On the contestant's own stopwatch, for the calls after the lead."""
    places: Text
    """Addresses of outputs, call by call, then of state, each a 64-bit number in hexadecimal; where not all
    are contiguous, each is followed by its strides in bytes. Empty on a GPU."""


class Owned(Message):
    """Outputs of the last run lie in memory of their own."""

    copied_ms: Milliseconds
    """Copying those that did not, on the contestant's own stopwatch."""
    where: Any
    """Address and strides in bytes of each output of each call; empty where memory cannot be looked at."""


class Collected(Message):
    """Outputs lie in their slots, unless there is a complaint."""

    kind: Literal["", "shape", "dtype", "memory", "state"]
    complaint: Line


class Described(Message):
    """The structure of what the last run's first call returned."""

    tree: Tree
    tensors: Records
    """The `dtype` and `shape` of each; numbers count as tensors."""


class Profiled(Message):
    """Events that torch's profiler saw during one call, longest first."""

    events: Annotated[list[tuple[Name, Report, Milliseconds]], Bounds(policy.MAX_EVENTS)]
    """Kind (`kernel`, `operator`, `call`), name and milliseconds."""


class Built(Message):
    """The referee's answer to `RequestBuild`."""

    ok: bool
    path: Text
    """The library, as the contestant sees it."""
    module_name: Text
    log: Text


class RequestBuild(Request[Built]):
    """A contestant's only request, sent instead of an answer: build a library outside its sandbox."""

    request: Any
    """The fields of a `BuildRequest`, checked by the referee and by the driver."""


class ContestantRequest(Request[A_co]):
    """A request that a contestant serves."""


class LayoutRequest(ContestantRequest[A_co]):
    """A request about the calls of a layout, which it names."""

    layout: Name


class Setup(ContestantRequest[Done]):
    """Open the device and fix what all computations share; the first request."""

    device: Name
    threads: Threads
    math: Name
    sharing: Name | None = None
    """The device that shared memory lies on, where it is another."""


class Attach(ContestantRequest[Done]):
    """Map the blocks whose descriptors ride on this message; they are numbered on from those there are."""

    blocks: Records


class Detach(LayoutRequest[Done]):
    """Forget a layout and unmap blocks that it lies in."""

    blocks: Annotated[list[Number], Bounds(policy.MAX_FDS)]


class Load(ContestantRequest[Done]):
    """Import source as a module that defines a class."""

    source: Text
    class_name: Name
    overrides: Fields
    """Constants of the module to replace."""


class Construct(ContestantRequest[Done]):
    """Make a model of a class under a seed; give it tensors by name, or a whole state, where asked."""

    class_name: Name
    model: Name
    """The name that later messages call it by."""
    seed: Number
    vary: bool
    """Move constant parameters off their constants."""
    args: Tree
    kwargs: Tree
    slots: Records
    """Places of the tensors of the arguments, then those of the state, then those given by name."""
    state: Texts | None
    """Names of the state's tensors."""
    given: Texts
    """Names of the tensors that a model is given which has them."""
    dtype: Name
    """Empty to leave the model's own."""
    compile: bool
    spread: Fields | None = None
    """Factor on the distance of random weights from their means; None leaves them as drawn."""


class LayOut(LayoutRequest[Done]):
    """Make views of shared memory for the arguments and outputs of `count` calls."""

    count: Count
    args: Tree
    kwargs: Tree
    input_slots: Records
    output_slots: Records
    output_tree: Tree
    state: Texts
    """Names of the state that calls change."""
    state_slots: Records
    """Places of its tensors, as the last call of a run leaves them."""
    private: bool
    """Copy arguments into allocations of exactly their size."""
    backward: Fields | None
    """The gradients asked for."""


class MakeReady(LayoutRequest[Done]):
    """Note the model's state and make arguments for the next run, before any clock runs."""

    model: Name
    first: Count
    count: Count
    restore: bool


class Run(LayoutRequest[Ran]):
    """Make prepared calls. The referee's clock runs from this message, or from its gate, to the answer."""

    model: Name
    first: Count
    count: Count
    lead: Count = 0
    """The first calls, which are not on the contestant's stopwatch."""
    restore: bool = False
    ready: bool = False
    """`MakeReady` came before."""
    gate_block: Count | None = None
    """The block whose first word the calls wait for; None without a gate."""
    gate_value: Number = 0
    """The value that word has to reach."""
    waits: bool = False
    """The process itself waits for it before it makes any call."""
    spoil: bool = True
    """Write noise to outputs whose calls still wait for it: whoever wrote an answer ahead loses it."""


class Own(LayoutRequest[Owned]):
    """Copy what the last run returned in memory that something else uses; asked of a CPU's contestants, since
    those of a GPU do it before they answer."""


class Guard(LayoutRequest[Done]):
    """Place the tensors of the next run in memory of their own between guard pages."""

    edge: Literal["beginning", "end", "exact", "inside"]
    """The edge of each tensor that touches unmapped memory; see `devices/guarded_block.py`."""
    tensors: Annotated[list[Name], Bounds(policy.MAX_ITEMS)]
    """The tensors: `input 0`, `input` for all inputs, `parameters` with buffers, `allocations`."""
    budget: Number
    """Bytes such memory may take; what finds no room stays where it is."""


class Stain(ContestantRequest[Done]):
    """Leave NaN in on-chip memory, where kernels may read what they have not written."""


class Disturb(ContestantRequest[Done]):
    """Keep multiprocessors busy on another stream, beside the next run, in one of several ways."""

    kind: Count


class Collect(LayoutRequest[Collected]):
    """Copy what the last run returned into its slots, beginning with those of call `first`, and the state
    it left."""

    first: Count
    kept: Count | None = None
    """Copy the outputs of one call instead, of those that were kept: the number of it."""


class Overwrite(LayoutRequest[Done]):
    """Copy what lies in those slots over the outputs: they are their caller's."""

    first: Count


class Drop(LayoutRequest[Done]):
    """Drop what the last run returned."""

    keep: bool
    """Keep the last call's outputs; beyond `policy.MAX_KEPT`, drop those that were kept second."""


class Describe(ContestantRequest[Described]):
    """Describe what the last run returned, for a caller who expects nothing particular."""


class Restore(ContestantRequest[Done]):
    """Put back the model's state that was noted before the last run."""


class Profile(LayoutRequest[Profiled]):
    """Make one call under torch's profiler."""

    model: Name


class CountCounters(LayoutRequest[Done]):
    """Make one call between profiler start and stop, for the tool around the process."""

    model: Name


class SetThreads(ContestantRequest[Done]):
    """Compute with so many threads from now on."""

    count: Threads


class Finish(ContestantRequest[Done]):
    """End in good order, as tools that report at the end need it."""
