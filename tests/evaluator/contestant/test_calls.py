"""Batches of calls: what is on the stopwatch, and what is not."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.contestant import calls, output_aliasing
from kernelwright.evaluator.contestant.calls import CallLayout, own, prepare, run
from kernelwright.evaluator.contestant.output_places import committed, where
from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.cpu import CpuBlock
from kernelwright.evaluator.ipc.contestant_messages import LayOut, Run
from kernelwright.evaluator.ipc.tensor_layout import place, view


class _Watched:
    """A device and its stopwatch that note what happens."""

    torch_device = torch.device("cpu")

    def __init__(self) -> None:
        self.events: list[str] = []

    def timer(self) -> _Watched:
        return self

    def start(self) -> None:
        self.events.append("start")

    def stop(self) -> None:
        self.events.append("stop")

    def synchronize(self) -> None:
        pass

    def elapsed_ms(self) -> float:
        return 1.0


def _layout(inputs: list[torch.Tensor], **fields: Any) -> CallLayout:
    known = {
        "arguments": [([one], {}) for one in inputs],
        "outputs": [],
        "output_tree": {"k": "tensor", "i": 0},
        "output_slots": [],
        "device": torch.device("cpu"),
        "private": None,
        "state": {},
        "renewed": None,
        "backward": None,
        "shared": frozenset(one.untyped_storage().data_ptr() for one in inputs),
    }
    return CallLayout(**(known | fields))


ON_GPU = {"device": torch.device("cuda")}
"""Outputs are looked at before the answer; the tensors themselves may lie anywhere."""


def _run(model, layout, *, count, lead=0):
    """Make calls, and then what a referee asks for; an event `answer` comes between."""
    device = _Watched()

    def noted(value, those):
        device.events.append("copy")
        return output_aliasing.copy_aliased(value, those)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "copy_aliased", noted)
        request = Run(layout="", model="", first=0, count=count, lead=lead)
        returned = run(model, layout, cast(Device, device), request).returned
        if layout.device.type == "cpu":
            device.events.append("answer")
            _, returned = own(returned, layout, cast(Device, device))
    return device.events, returned


@pytest.mark.parametrize("wrapped", [lambda view: view, lambda view: (view, 3), lambda view: {"a": [view]}])
def test_copying_what_lies_in_the_inputs_is_on_the_stopwatch(wrapped):
    """A view is no answer yet: elsewhere it has to be written, and there that is timed."""
    inputs = [torch.randn(3, 4) for _ in range(2)]
    events, returned = _run(lambda x: wrapped(x.t()), _layout(inputs, **ON_GPU), count=2)
    assert events == ["start", "stop", "copy", "copy", "stop"]
    assert not output_aliasing.aliased_outputs(returned, _layout(inputs).shared)
    events, returned = _run(lambda x: wrapped(x.t()), _layout(inputs), count=2)
    assert events == ["start", "stop", "answer", "start", "copy", "copy", "stop"]
    assert not output_aliasing.aliased_outputs(returned, _layout(inputs).shared)


def test_what_is_only_marked_as_conjugated_is_written_on_the_stopwatch():
    inputs = [torch.randn(3, dtype=torch.complex64) for _ in range(2)]
    events, returned = _run(lambda x: (x + 1).conj(), _layout(inputs), count=2)
    assert events[: events.index("answer")] == ["start", "copy", "copy", "stop"]
    assert not any(value.is_conj() for value in returned)


def test_what_a_namespace_lends_is_copied_too():
    inputs = [torch.randn(3, 4)]
    events, (returned,) = _run(lambda x: SimpleNamespace(a=[x.t()], n=1), _layout(inputs), count=1)
    assert events[-1] == "stop"
    assert returned.n == 1
    assert torch.equal(returned.a[0], inputs[0].t())
    assert returned.a[0].data_ptr() != inputs[0].data_ptr()


def test_fresh_outputs_are_not_looked_at_on_the_stopwatch():
    layout = _layout([torch.randn(3)] * 2, **ON_GPU)
    assert _run(lambda x: x + 1, layout, count=2)[0] == ["start", "stop"]


def test_copying_takes_no_time_where_nothing_is_copied():
    inputs = [torch.randn(3)]
    assert own([inputs[0] + 1], _layout(inputs), cast(Device, _Watched()))[0] == 0.0
    assert own(inputs, _layout(inputs), cast(Device, _Watched()))[0] == 1.0


def test_copies_of_the_lead_are_not_on_the_stopwatch():
    inputs = [torch.randn(3) for _ in range(3)]
    layout = _layout(inputs, **ON_GPU)
    events, _ = _run(lambda x: x if x is inputs[0] else x + 1, layout, count=3, lead=1)
    assert events == ["copy", "start", "stop"]


def test_arguments_that_are_made_anew_are_made_before():
    made: list[int] = []

    def renewed(index):
        made.append(index)
        return [torch.full((2,), float(index))], {}

    layout = _layout([torch.randn(2)] * 4, renewed=renewed)
    layout.ready(1, 3)
    assert made == [1, 2, 3]
    _, returned = _run(lambda x: x + 1, layout, count=3)
    assert made == [1, 2, 3]
    assert [float(one[0]) for one in returned] == [2.0, 3.0, 4.0]
    _run(lambda x: x + 1, layout, count=2)
    assert made == [1, 2, 3, 0, 1]


def test_where_outputs_lie_is_told_in_bytes():
    value = torch.randn(4, 6)[:, ::2]
    on_host = torch.device("cpu")
    assert where([(value, {"b": value})], on_host) == [[[value.data_ptr(), 24, 8]] * 2]
    assert where([object()], on_host) == []


def _told(text: str) -> list[int]:
    return list(array("q", bytes.fromhex(text)))


TENSOR = {"k": "tensor", "i": 0}
NAMED = {"k": "dict", "v": [[{"k": "value", "v": name}, TENSOR] for name in ("a", "b")]}


@pytest.mark.parametrize(
    ("tree", "nest"),
    [
        (TENSOR, lambda a, b: [a, b]),
        ({"k": "tuple", "v": [TENSOR, TENSOR]}, lambda a, b: [(a, b)]),
        ({"k": "tuple", "v": [TENSOR, TENSOR]}, lambda a, b: [{"a": a, "b": b}]),
        ({"k": "list", "v": [TENSOR, {"k": "tuple", "v": [TENSOR]}]}, lambda a, b: [[a, (b,)]]),
        (NAMED, lambda a, b: [{"b": b, "a": a}]),
        (NAMED, lambda a, b: [(a, b)]),
    ],
)
def test_an_answer_commits_to_places_in_the_references_order(tree, nest):
    a, b, state = torch.randn(3), torch.randn(2, 2), torch.randn(4)
    places = [a.data_ptr(), b.data_ptr(), state.data_ptr()]
    assert _told(committed(nest(a, b), tree, [state])) == places


def test_strides_are_told_where_one_is_not_contiguous():
    a, b = torch.randn(3), torch.randn(2, 5).t()
    assert _told(committed([a, b], TENSOR)) == [a.data_ptr(), 4, b.data_ptr(), 4, 20]


@pytest.mark.parametrize("returned", [[object()], [torch.eye(3).to_sparse()], [None]])
def test_what_has_no_places_commits_to_none(returned):
    assert committed(returned, TENSOR) == ""


def test_inputs_of_one_call_have_storages_of_their_own_which_outputs_may_not_lie_in() -> None:
    block = CpuBlock.create(1 << 16)
    leaves = [torch.randn(4, 3), torch.arange(5), torch.randn(2, 2).bfloat16()]
    slots, _ = place(leaves, count=3, block=0)
    request = LayOut(
        layout="time",
        count=3,
        args={"k": "list", "v": [{"k": "tensor", "i": index} for index in range(3)]},
        kwargs={"k": "dict", "v": []},
        input_slots=[slot | {"block": 0} for slot in slots],
        output_slots=[],
        output_tree={"k": "tensor", "i": 0},
        state=[],
        state_slots=[],
        private=False,
        backward=None,
    )
    layout = prepare(request, [block], torch.device("cpu"))
    for index in range(3):
        (args, _) = layout.arguments[index]
        assert len({one.untyped_storage().data_ptr() for one in args}) == 3
        for one, slot, leaf in zip(args, slots, leaves, strict=True):
            one.copy_(leaf)
            assert torch.equal(view(block.data, slot, index), leaf)
            assert one.untyped_storage().data_ptr() in layout.shared
