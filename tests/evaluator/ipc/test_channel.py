import gc
import json
import os
import socket
from pathlib import Path

import pytest

from kernelwright.evaluator.ipc.channel import (
    Channel,
    ChannelClosed,
    ChannelGarbled,
    ChannelTimeout,
    JsonObject,
)
from kernelwright.evaluator.ipc.policy import MAX_DEPTH


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    channels = Channel(left), Channel(right)
    yield channels
    for channel in channels:
        channel.close()


def test_messages_arrive_in_order_however_they_are_cut(pair):
    left, right = pair
    left.send({"n": 1, "text": "a\nb"})
    left.send({"n": 2})
    assert right.receive(1) == {"n": 1, "text": "a\nb"}
    assert right.receive(1) == {"n": 2}


def test_descriptors_travel_with_their_message(pair):
    left, right = pair
    read, write = os.pipe()
    left.send({"op": "attach"}, [write])
    os.close(write)
    assert right.receive(1, with_fds=True) == {"op": "attach"}
    (received,) = right.take_fds()
    os.write(received, b"x")
    os.close(received)
    assert os.read(read, 1) == b"x"
    os.close(read)


def test_descriptors_nobody_asked_for_are_dropped():
    left, right = socket.socketpair()
    gc.collect()  # what other tests left open may be closed at any time
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with left, right:
        socket.send_fds(left, [b'{"op":"done"}\n'], [left.fileno()] * 3)
        channel = Channel(right)
        assert channel.receive(1) == {"op": "done"}
        assert channel.take_fds() == []
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_what_is_not_a_message_is_told_from_silence_and_death(pair):
    left, right = pair
    with pytest.raises(ChannelTimeout):
        right.receive(0.01)
    left._end.sendall(b"PASSED\n")
    with pytest.raises(ChannelGarbled):
        right.receive(1)
    left._end.sendall(b"[1]\n")
    with pytest.raises(ChannelGarbled):
        right.receive(1)
    left.close()
    with pytest.raises(ChannelClosed):
        right.receive(1)


def test_deeply_nested_json_is_garbled_and_not_a_crash(pair):
    left, right = pair
    left._end.sendall(b"[" * 100_000 + b"\n")
    with pytest.raises(ChannelGarbled):
        right.receive(1)


def nested(depth: int) -> JsonObject:
    message: JsonObject = {"op": "build"}
    for _ in range(depth):
        message = {"request": message}
    return message


def test_what_is_received_can_be_passed_on_however_deep_the_stack_is(pair):
    left, right = pair
    left.send(nested(MAX_DEPTH - 1))
    assert right.receive(1) == nested(MAX_DEPTH - 1)
    for depth in (MAX_DEPTH, 900):
        left._end.sendall(json.dumps(nested(depth)).encode() + b"\n")
        with pytest.raises(ChannelGarbled):
            right.receive(1)


@pytest.mark.parametrize("message", [nested(MAX_DEPTH), nested(10_000), {"text": "\x01" * (6 << 20)}])
def test_what_the_other_side_could_not_receive_is_not_sent(pair, message):
    left, right = pair
    with pytest.raises(ChannelGarbled):
        left.send(message)
    left.send({"n": 1})
    assert right.receive(1) == {"n": 1}


def test_many_brackets_are_not_depth(pair):
    left, right = pair
    left.send({"shapes": [[1], {"a": "[[[["}] * 500})
    assert len(right.receive(1)["shapes"]) == 1000
