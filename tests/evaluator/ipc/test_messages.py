"""Typed messages: what is sent arrives the same, and what is anything else is garbled, never a crash."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.evaluator.contestant.exceptions import CompilerPatterns
from kernelwright.evaluator.contestant.executor import Contestant
from kernelwright.evaluator.ipc import contestant_messages, driver_requests, messages, referee_messages
from kernelwright.evaluator.ipc.channel import Channel, ChannelGarbled, JsonObject
from kernelwright.evaluator.ipc.contestant_messages import Collected, ContestantRequest, Failed, Profiled, Ran
from kernelwright.evaluator.ipc.messages import (
    Bounds,
    Dispatcher,
    Done,
    Message,
    Request,
    _fits,
    answers_to,
    decode,
)
from tests.messages import check_handlers, kinds_in

KINDS = sorted(
    {
        kind
        for module in (messages, contestant_messages, driver_requests, referee_messages)
        for kind in kinds_in(module)
    },
    key=lambda kind: kind.op,
)
ANSWERS = (Done, Ran, Collected, Profiled, Failed)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Everything(Message):
    """One field of each form."""

    flag: bool
    count: Annotated[int, Bounds(9, 1)]
    share: Annotated[float, Bounds(1)]
    text: Annotated[str, Bounds(3)]
    word: Literal["a", "b"]
    maybe: Annotated[int, Bounds(9)] | None
    pairs: Annotated[list[tuple[Annotated[int, Bounds(9)], bool]], Bounds(2)]
    tree: dict[str, Any]
    claim: Any
    spared: Annotated[int, Bounds(9)] = 0


FIELDS: JsonObject = {
    "flag": True,
    "count": 9,
    "share": 1,
    "text": "abc",
    "word": "b",
    "maybe": None,
    "pairs": [[1, False], [9, True]],
    "tree": {"k": [None]},
    "claim": [[1], {}],
    "spared": 0,
}


def test_every_kind_has_bounds_a_name_of_its_own_and_answers_that_are_messages() -> None:
    assert len({kind.op for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert kind.__doc__
        assert _fits(kind) is not None
        if issubclass(kind, Request):
            assert all(issubclass(answer, Message) for answer in answers_to(kind))


def test_what_is_sent_arrives_the_same() -> None:
    sent = Everything(**FIELDS)
    assert decode(json.loads(json.dumps(sent.to_json())), Done, Everything) == sent
    assert decode(Done().to_json(), Done) == Done()


@pytest.mark.parametrize(
    "fields",
    [
        {"flag": 1},
        {"flag": None},
        {"count": 0},
        {"count": 10},
        {"count": True},
        {"count": 2.0},
        {"count": 10**400},
        {"share": -0.1},
        {"share": 10**400},
        {"share": float("nan")},
        {"share": float("inf")},
        {"share": "1"},
        {"share": True},
        {"text": "abcd"},
        {"text": None},
        {"word": "c"},
        {"word": ["a"]},
        {"maybe": 10},
        {"pairs": [[1, False]] * 3},
        {"pairs": [[1]]},
        {"pairs": [1]},
        {"pairs": {"0": 1}},
        {"tree": []},
        {"one": "more"},
        {"op": "done"},
        {"op": None},
        {"op": ["everything"]},
        {"op": {"everything": 1}},
    ],
)
def test_what_is_out_of_bounds_is_garbled(fields: JsonObject) -> None:
    assert decode({"op": "everything"} | FIELDS, Everything)
    with pytest.raises(ChannelGarbled) as raised:
        decode({"op": "everything"} | FIELDS | fields, Done, Everything)
    assert len(str(raised.value)) < 700


@pytest.mark.parametrize("name", FIELDS)
def test_what_lacks_a_field_is_garbled(name: str) -> None:
    """Even one that its sender need not name."""
    fields = {"op": "everything"} | FIELDS
    del fields[name]
    with pytest.raises(ChannelGarbled):
        decode(fields, Everything)
    with pytest.raises(ChannelGarbled):
        decode(fields | {"other": 1}, Everything)


@pytest.mark.parametrize("claim", [-0.001, -1, float("nan"), float("inf"), 1e12, "1.0", None, [1.0], True])
def test_a_claimed_time_is_a_number_of_milliseconds_that_can_be(claim: Any) -> None:
    ran = {"op": "ran", "inner_ms": 0.5, "places": ""}
    assert decode(ran, Ran).inner_ms == 0.5
    with pytest.raises(ChannelGarbled):
        decode(ran | {"inner_ms": claim}, Ran)


@settings(max_examples=300)
@given(JSON, st.sampled_from(ANSWERS), st.data())
def test_no_answer_of_a_hostile_contestant_raises_anything_else(
    junk: Any, kind: type[Message], data: st.DataObject
) -> None:
    fields: JsonObject = {
        name: data.draw(JSON) for name in data.draw(st.sets(st.sampled_from([*_fits(kind), "x"])))
    }
    fields["op"] = data.draw(st.sampled_from([kind.op, "queued"]) | JSON)
    for received in (fields, junk if isinstance(junk, dict) else {"op": junk}):
        try:
            answer = decode(received, *ANSWERS)
        except ChannelGarbled as error:
            assert len(str(error)) < 700
        else:
            assert answer.op == received["op"]


def test_a_field_without_bounds_is_our_mistake() -> None:
    class Boundless(Message):
        """Too free."""

        text: str

    with pytest.raises(TypeError, match="has no bounds"):
        decode({"op": "boundless", "text": ""}, Boundless)


def test_a_request_reaches_its_handler_and_nothing_else_does() -> None:
    seen: list[str] = []
    dispatcher = Dispatcher(
        {contestant_messages.Finish: lambda request: request.op}, before=lambda: seen.append("before")
    )
    assert dispatcher.handle({"op": "finish"}) == "finish"
    assert seen == ["before"]
    assert dispatcher.knows({"op": "finish"})
    for received in ({"op": "done"}, {"op": "finish", "more": 1}, {}, {"op": ["finish"]}):
        with pytest.raises(ChannelGarbled):
            dispatcher.handle(received)
    assert seen == ["before"]


def test_every_request_to_a_contestant_has_one_handler() -> None:
    handlers = Contestant(cast(Channel, None), cast(CompilerPatterns, None)).handlers
    assert set(handlers) == kinds_in(contestant_messages, ContestantRequest)
    check_handlers(handlers)
