"""Calling a model: prepared layouts, timed loops, and the copy of outputs and state into slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from kernelwright.evaluator.contestant.early_outputs import spoil
from kernelwright.evaluator.contestant.output_aliasing import aliased_outputs, copy_aliased, lazy_outputs
from kernelwright.evaluator.contestant.output_places import committed
from kernelwright.evaluator.devices import Block, Device, Stopwatch
from kernelwright.evaluator.ipc.contestant_messages import Collected, LayOut, Run
from kernelwright.evaluator.ipc.gradients import Backward
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.policy import MAX_LINE
from kernelwright.evaluator.ipc.tensor_layout import Slot, exact_copy, view
from kernelwright.evaluator.ipc.tensor_tree import (
    Tree,
    UnsupportedValue,
    dtype_from,
    dtype_name,
    flatten,
    leaf_paths,
    same_structure,
    unflatten,
)

# Any: whatever a problem's author passes, positional and by keyword.
Call = tuple[list[Any], dict[str, Any]]
Copy = Callable[[int, torch.Tensor], torch.Tensor]
"""Copies the tensor of a number among a call's arguments."""

_FINE = Collected(kind="", complaint="")


@dataclass(slots=True)
class CallLayout:
    """Places of the arguments and outputs of `count` calls; views are made once, outside any timing."""

    arguments: list[Call]
    outputs: list[list[torch.Tensor]]
    output_tree: Tree
    output_slots: list[Slot]
    device: torch.device
    """Device of the model; the slots may lie elsewhere."""
    private: Callable[[int, Copy], Call]
    """Makes arguments of copies."""
    renewed: Callable[[int], Call] | None
    """Makes arguments that belong to no graph yet, where gradients are asked for."""
    backward: Backward | None
    """The gradients asked for; then each call's positional arguments end with leaves and cotangents."""
    state: dict[str, torch.Tensor]
    """Places of the state that calls change, by name."""
    shared: frozenset[int]
    """Start addresses of the referee's memory: what lies in it may be gone once the calls are over."""
    copy: Copy | None = None
    """Copies arguments to where an overrun is seen; None to use them where they lie."""
    made: list[Call] = field(default_factory=list)
    """Arguments made ahead for the next run."""

    @property
    def lone(self) -> bool:
        """True where a call returns one tensor of real numbers, as most do."""
        if self.output_tree["k"] != "tensor" or self.output_slots[0].get("number"):
            return False
        return not dtype_from(self.output_slots[0]["dtype"]).is_complex

    def ready(self, first: int, count: int) -> None:
        """Make the arguments of the next run, where they are new ones each time."""
        self.made = [self.renewed(index) for index in range(first, first + count)] if self.renewed else []

    def prepared(self, first: int, count: int) -> list[Call]:
        """Arguments of some calls, ready to `call` with."""
        if self.copy is not None:
            return [self.private(index, self.copy) for index in range(first, first + count)]
        if len(self.made) == count:
            made, self.made = self.made, []
            return made
        if self.renewed is None:
            return self.arguments[first : first + count]
        return [self.renewed(index) for index in range(first, first + count)]

    def call(self, model: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """One call, and its gradients where they are asked for."""
        if self.backward is None:
            return model(*args, **kwargs)
        *given, leaves, cotangents = args
        return self.backward.call(model, given, kwargs, leaves=leaves, cotangents=cotangents)


def prepare(request: LayOut, blocks: list[Block], device: torch.device) -> CallLayout:
    """Make the views that a request describes."""
    count, output_slots = request.count, request.output_slots
    # With a storage of its own each: a model compiled by torch may not change inputs that share one.
    parts = [
        blocks[slot["block"]].part(slot["offset"], slot["pitch"] * count) for slot in request.input_slots
    ]
    slots = [slot | {"offset": 0} for slot in request.input_slots]

    def shared(leaf: int, index: int) -> torch.Tensor:
        return view(parts[leaf], slots[leaf], index)

    def exact(number: int, tensor: torch.Tensor) -> torch.Tensor:
        return exact_copy(tensor, device)

    backward = Backward.from_message(request.backward) if request.backward else None

    def called_with(index: int, tensor: Callable[[int, int], torch.Tensor]) -> Call:
        trees = (request.args, request.kwargs)
        if backward is None:
            args, kwargs = (unflatten(tree, lambda leaf: tensor(leaf, index)) for tree in trees)
            return args, kwargs
        tensors = [tensor(leaf, index) for leaf in range(len(slots))]
        leaves, cotangents = tensors[: -len(backward.graded)], tensors[-len(backward.graded) :]
        leaves = [backward.leaf(number, leaf) for number, leaf in enumerate(leaves)]
        args, kwargs = (unflatten(tree, leaves.__getitem__) for tree in trees)
        return [*args, leaves, cotangents], kwargs

    return CallLayout(
        arguments=[called_with(index, shared) for index in range(count)] if backward is None else [],
        outputs=[
            [view(blocks[slot["block"]].data, slot, index) for slot in output_slots] for index in range(count)
        ],
        output_tree=request.output_tree,
        output_slots=output_slots,
        device=device,
        private=lambda index, copy: called_with(index, lambda leaf, at: copy(leaf, shared(leaf, at))),
        copy=exact if request.private else None,
        renewed=None if backward is None else (lambda index: called_with(index, shared)),
        backward=backward,
        state={
            name: view(blocks[slot["block"]].data, slot, 0)
            for name, slot in zip(request.state, request.state_slots, strict=True)
        },
        shared=frozenset(
            memory.untyped_storage().data_ptr() for memory in (*(block.data for block in blocks), *parts)
        ),
    )


@dataclass(frozen=True, slots=True)
class GateWait:
    """A stream-ordered wait before a batch's calls, so that all are queued before the first one runs."""

    word: torch.Tensor
    value: int
    queued: Callable[[], None]
    """To be called when they are."""
    spoils: bool = True
    """True to spoil their outputs before that."""

    def shut(self, device: Device) -> None:
        """Let what is queued from now on wait; raises RuntimeError where the device cannot."""
        device.write_noise([])  # what it takes cannot be made behind a shut gate
        if not device.waits_for(self.word, self.value):
            raise RuntimeError("the device does not wait for the referee")

    def close_queue(self, returned: list[Any], device: Device) -> None:
        """All calls are queued: spoil what they returned, and say so."""
        if self.spoils:
            spoil(returned, device, self.is_shut)
        self.queued()

    def is_shut(self) -> bool:
        """True where the host can read that it is: a word in device memory would be read behind it."""
        return self.word.device.type == "cpu" and int(self.word[:4].view(torch.int32)) < self.value


@dataclass(frozen=True, slots=True)
class Called:
    """A batch of calls that were made."""

    inner_ms: float
    """Their own milliseconds, without the lead's."""
    returned: list[Any]
    places: str = ""
    """On a CPU, the places of outputs and state, as `committed` writes them."""
    held: tuple[Any, ...] = ()
    """Arguments and copies of state that must live until `own` has looked at the outputs."""


def run(
    model: Any, layout: CallLayout, device: Device, request: Run, *, gate: GateWait | None = None
) -> Called:
    """Make the prepared calls that a request asks for.

    The stopwatch starts on a device that is at work already, so that what the host takes before the first
    kernel runs is no part of what calls take in a row; or, behind a gate, once all of them are queued.

    An answer is memory of its own, so outputs that lie elsewhere are copied; that is on the stopwatch, since
    a candidate that returns fresh ones has written them too. On a CPU `own` does it later: finding them takes
    as long as short calls do, and between claim and answer that would be time to hide work in.
    """
    lead, on_host = request.lead, layout.device.type == "cpu"
    calls = layout.prepared(request.first, request.count)
    led: list[Any] = []
    returned: list[Any] = []
    timer = device.timer()
    with torch.no_grad():
        device.synchronize()
        if gate is not None:
            gate.shut(device)
        for args, kwargs in calls[:lead]:
            led.append(layout.call(model, args, kwargs))
        if not on_host:
            led = _without_aliases(led, aliased_outputs(led, layout.shared))
        timer.start()
        if layout.backward is None:
            for args, kwargs in calls[lead:]:
                returned.append(model(*args, **kwargs))
        else:
            for args, kwargs in calls[lead:]:
                returned.append(layout.call(model, args, kwargs))
        if on_host:
            return _committed(model, layout, timer, [*led, *returned], calls)
        timer.stop()
        if aliased := aliased_outputs(returned, layout.shared):
            returned = _without_aliases(returned, aliased)
            timer.stop()
        if gate is not None:
            gate.close_queue([*led, *returned], device)
        device.synchronize()
        inner_ms = timer.elapsed_ms()
    return Called(inner_ms, [*led, *returned])


def _committed(
    model: Any, layout: CallLayout, timer: Stopwatch, returned: list[Any], calls: list[Call]
) -> Called:
    """Commit to the places of outputs and state, on the stopwatch: whoever does less has no time to claim."""
    returned = _without_aliases(returned, lazy_outputs(returned))
    state = _fitting_state(model, layout.state)
    places = committed(returned, layout.output_tree, state)
    timer.stop()
    return Called(timer.elapsed_ms(), returned, places, (calls, state))


def own(returned: list[Any], layout: CallLayout, device: Device) -> tuple[float, list[Any]]:
    """Copy outputs that do not own their memory; return the milliseconds that took, and all outputs."""
    if layout.device.type != "cpu":
        return 0.0, returned
    timer = device.timer()
    with torch.no_grad():
        aliased = aliased_outputs(returned, layout.shared)
        timer.start()
        returned = _without_aliases(returned, aliased)
        timer.stop()
    return timer.elapsed_ms() if aliased else 0.0, returned


def _without_aliases(returned: list[Any], aliased: frozenset[int]) -> list[Any]:
    return [copy_aliased(value, aliased) for value in returned] if aliased else returned


def collect(returned: list[Any], layout: CallLayout, first: int) -> Collected:
    """Copy outputs into their slots; stop at the first that does not fit and say why."""
    places = layout.outputs[first : first + len(returned)]
    if layout.lone and all(_fits(value, goals[0]) for value, goals in zip(returned, places, strict=True)):
        # At once: how long a process takes for each by itself is its own, and no time of its kernels'.
        torch._foreach_copy_([goals[0] for goals in places], returned)
        return _FINE
    for index, value in enumerate(returned):
        try:
            tree, leaves = flatten(value, numbers_as_tensors=True)
        except UnsupportedValue as error:
            return _complaint("shape", f"the output holds {error}")
        complaint = _misfit(tree, leaves, layout)
        if complaint is not None:
            return complaint
        _store(places[index], leaves)
    return _FINE


def overwrite(returned: list[Any], layout: CallLayout, first: int) -> None:
    """Write what lies in the slots over the outputs that were collected into them, in the same way."""
    places = layout.outputs[first : first + len(returned)]
    # Whoever makes inference tensors forbids to write to them elsewhere.
    with torch.inference_mode():
        if layout.lone:
            torch._foreach_copy_(returned, [goals[0] for goals in places])
            return
        for value, goals in zip(returned, places, strict=True):
            _store(flatten(value, numbers_as_tensors=True)[1], goals)


def collect_state(model: object, places: Mapping[str, torch.Tensor]) -> Collected:
    """Copy a model's buffers and parameters into their places; stop at the first that is not there."""
    held = named_state(model)
    for name, place in places.items():
        tensor = _named(held, name, place.shape)
        changed = f"calls of the reference change its buffer {name}, which is compared; the module has"
        if tensor is None:
            there = ", ".join(held) or "none at all"
            return _complaint("state", f"{changed} none of that name; it has {there}")
        if tensor.shape != place.shape:
            shapes = f"{tuple(tensor.shape)} instead of {tuple(place.shape)}"
            return _complaint("state", f"{changed} one of shape {shapes}")
        place.copy_(tensor)
    return _FINE


def _fitting_state(model: object, places: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The state's tensors, as bytes that will be found in their places; empty where one is missing."""
    if not places:
        return []
    held = named_state(model)
    found = [(_named(held, name, place.shape), place) for name, place in places.items()]
    return [tensor.to(place.dtype) for tensor, place in found if tensor is not None]


def _named(held: Mapping[str, torch.Tensor], name: str, shape: torch.Size) -> torch.Tensor | None:
    """The tensor of a name; else the only one of that shape whose name ends alike, in another submodule."""
    if name in held:
        return held[name]
    end = name.rpartition(".")[2]
    alike = [
        tensor for own, tensor in held.items() if own.rpartition(".")[2] == end and tensor.shape == shape
    ]
    return alike[0] if len(alike) == 1 else None


def _fits(value: Any, goal: torch.Tensor) -> bool:
    """Check that a value can be copied into a slot as it is."""
    return (
        type(value) is torch.Tensor
        and value.dtype is goal.dtype
        and value.shape == goal.shape
        and value.device == goal.device
        and value.layout is torch.strided
        and not value.is_neg()
    )


def _store(goals: list[torch.Tensor], leaves: list[torch.Tensor]) -> None:
    for goal, leaf in zip(goals, leaves, strict=True):
        goal.copy_(leaf)


def _complaint(kind: Literal["shape", "dtype", "state"], text: str) -> Collected:
    return Collected(kind=kind, complaint=text[:MAX_LINE])


def _misfit(tree: Tree, leaves: list[torch.Tensor], layout: CallLayout) -> Collected | None:
    if not same_structure(tree, layout.output_tree):
        nesting = f"{_sketch(tree)} instead of {_sketch(layout.output_tree)}"
        return _complaint("shape", f"the output nests differently: {nesting}")
    for path, leaf, slot in zip(leaf_paths(tree), leaves, layout.output_slots, strict=True):
        where = f"output{path}"
        if type(leaf) not in (torch.Tensor, nn.Parameter):
            return _complaint("dtype", f"{where} is a {type(leaf).__qualname__}, not a plain tensor")
        if list(leaf.shape) != slot["shape"]:
            shapes = f"{tuple(leaf.shape)} instead of {tuple(slot['shape'])}"
            return _complaint("shape", f"{where} has shape {shapes}")
        if dtype_name(leaf.dtype) != slot["dtype"]:
            return _complaint("dtype", f"{where} is {dtype_name(leaf.dtype)} instead of {slot['dtype']}")
        expected = layout.device.type if not slot.get("number") else leaf.device.type
        if leaf.device.type != expected:
            return _complaint("dtype", f"{where} is on {leaf.device} instead of {expected}")
        if leaf.layout is not torch.strided:
            return _complaint("dtype", f"{where} is a {leaf.layout} tensor instead of a dense one")
    return None


def _sketch(tree: Tree) -> str:
    match tree["k"]:
        case "list" | "tuple":
            return "(" + ", ".join(_sketch(item) for item in tree["v"]) + ")"
        case "dict":
            return "{" + ", ".join(f"{key.get('v')!r}: {_sketch(item)}" for key, item in tree["v"]) + "}"
        case kind:
            return str(kind)
