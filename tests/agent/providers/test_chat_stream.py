"""Streams and token counts as endpoints really send them, cut at every place."""

from __future__ import annotations

import json
import time

import pytest

from kernelwright.agent.providers.chat_stream import (
    LONGEST_STREAM,
    MalformedReply,
    Reply,
    StreamReader,
    read_usage,
)
from kernelwright.agent.records.messages import Usage


def chunk(text: str = "", **fields: object) -> dict[str, object]:
    finish = fields.pop("finish_reason", None)
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}], **fields}


EVENTS = (chunk("one "), chunk("two"), chunk(finish_reason="stop"))
COUNTS = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}


def read(data: bytes, step: int = 1 << 16) -> Reply:
    reader = StreamReader()
    for begin in range(0, len(data), step):
        reader.feed(data[begin : begin + step])
    return reader.finish()


def lines(*events: object, end: str = "\n") -> bytes:
    return "".join(
        f": ping{end}event: x{end}data: {json.dumps(event)}{end}{end}" for event in events
    ).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_lines_end_as_the_standard_lets_them(end: str, step: int) -> None:
    reply = read(b"\xef\xbb\xbf" + lines(*EVENTS, COUNTS, end=end), step)
    assert (reply.text, reply.usage) == ("one two", Usage(prompt_tokens=7, completion_tokens=9))


def test_counts_behind_the_end_need_no_line_of_their_own() -> None:
    reply = read(lines(*EVENTS) + b"data: " + json.dumps(COUNTS).encode())
    assert reply.usage == Usage(prompt_tokens=7, completion_tokens=9)
    assert read(lines(*EVENTS) + b'data: {"usage": {"prompt_').usage is None


def test_a_whole_reply_in_place_of_a_stream_is_read_whatever_its_type() -> None:
    body = {"choices": [{"message": {"content": "all\nof it"}, "finish_reason": "stop"}]}
    assert read(json.dumps(body, indent=1).encode()).text == "all\nof it"


def test_a_page_in_place_of_a_stream_is_quoted() -> None:
    with pytest.raises(MalformedReply, match="Welcome to nginx"):
        read(b"<html>\n<h1>Welcome to nginx</h1>\n</html>\n")


def test_a_long_line_is_not_copied_with_every_piece() -> None:
    data = lines(chunk("x" * (24 << 20), finish_reason="stop"))
    began = time.process_time()
    assert len(read(data, 4096).text) == 24 << 20
    assert time.process_time() - began < 10, "copied whole for each of 6,000 pieces it took minutes"


def test_a_stream_without_an_end_is_left() -> None:
    reader = StreamReader()
    piece = bytes(1 << 26)
    with pytest.raises(MalformedReply, match="longer than 256 MiB"):
        for _ in range(LONGEST_STREAM // len(piece) + 1):
            reader.feed(piece)


@pytest.mark.parametrize("wrong", [-1, 10**14, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_counts_that_cannot_be_are_no_counts(name: str, wrong: float) -> None:
    assert read_usage({"prompt_tokens": 5, "completion_tokens": 6, name: wrong}) is None


def test_details_that_cannot_be_leave_the_counts() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": -1}, "prompt_cache_hit_tokens": None}
    usage = {"prompt_tokens": 5, "completion_tokens": 6, **details}
    assert read_usage(usage) == Usage(prompt_tokens=5, completion_tokens=6)
