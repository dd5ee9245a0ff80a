"""Reading chat completions as endpoints really send them: bodies, stream chunks and usage, as JSON values.

Trusts no shape: what is not a complete reply raises `MalformedReply` and is asked for again.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kernelwright.agent.providers.policy import LONGEST_STREAM, MOST_TOKENS
from kernelwright.agent.records.messages import Usage

UNKNOWN_FINISH = "unknown"

_OTHER_FIELDS: Final = (b":", b"event:", b"id:", b"retry:")
"""Beginnings of event-stream lines that hold no data."""


class MalformedReply(Exception):
    """A reply that is not one: no choices, an error in a success's clothes, a stream cut short."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status the body names, where it holds an error under a 200."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of one try."""

    text: str
    reasoning: str
    finish_reason: str
    usage: Usage | None
    """None when the endpoint counted nothing."""
    model: str
    response_id: str


def read_reply(body: object) -> Reply:
    """Read a whole (not streamed) response body.

    Raises:
        MalformedReply: it is not a chat completion.
    """
    fields = as_fields(body)
    if fields is None:
        raise MalformedReply(f"the endpoint answered with something else than a completion: {_excerpt(body)}")
    _raise_error(fields)
    choice = _first_choice(fields)
    message = as_fields(choice.get("message")) if choice else None
    if choice is None or message is None:
        raise MalformedReply(f"the endpoint's completion has no message: {_excerpt(body)}")
    text, reasoning = read_message(message)
    return Reply(
        text=_whole_characters(text),
        reasoning=_whole_characters(reasoning),
        finish_reason=as_text(choice.get("finish_reason")) or UNKNOWN_FINISH,
        usage=read_usage(fields.get("usage")),
        model=as_text(fields.get("model")),
        response_id=as_text(fields.get("id")),
    )


@dataclass(slots=True)
class StreamReader:
    """Puts a streamed reply together from the bytes of its server-sent events.

    Reads the events itself: the SDK builds a model object for each, at twenty times the cost, and a reply has
    thousands.
    """

    _line: list[bytes] = field(default_factory=list)
    """Pieces of a line that has no end yet: joined once, or a long line would be copied with every piece."""
    _after_return: bool = False
    """True where the bytes so far end in a carriage return, of which a line feed may be the second half."""
    _size: int = 0
    _data: list[bytes] = field(default_factory=list)
    _stray: list[bytes] = field(default_factory=list)
    """Lines that are no part of an event stream: a whole body under the wrong content type, or a page."""
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finish_reason: str = ""
    _usage: Usage | None = None
    _model: str = ""
    _response_id: str = ""
    _chunks: int = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes, wherever they were cut.

        Raises:
            MalformedReply: an event is an error, or no JSON object.
            ValueError: an event is not JSON.
        """
        self._size += len(data)
        if self._size > LONGEST_STREAM:
            raise MalformedReply(f"the stream is longer than {LONGEST_STREAM >> 20} MiB")
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r") or (self._after_return and not data)
        for piece in data.splitlines(keepends=True):
            self._line.append(piece)
            if piece.endswith((b"\n", b"\r")):
                line = b"".join(self._line).rstrip(b"\r\n")
                self._line.clear()
                self._read(line)

    def _read(self, line: bytes) -> None:
        if not self._chunks:
            line = line.removeprefix(BOM_UTF8)
        if line.startswith(b"data:"):
            self._data.append(line[5:].strip())
        elif line:
            if not self._chunks and not line.startswith(_OTHER_FIELDS):
                self._stray.append(line)
        elif self._data:
            event, self._data = b"\n".join(self._data), []
            if event != b"[DONE]":
                self._take(json.loads(event))

    def _take(self, chunk: object) -> None:
        fields = as_fields(chunk)
        if fields is None:
            raise MalformedReply(f"the stream holds something else than completion chunks: {_excerpt(chunk)}")
        _raise_error(fields)
        self._chunks += 1
        self._model = self._model or as_text(fields.get("model"))
        self._response_id = self._response_id or as_text(fields.get("id"))
        self._usage = read_usage(fields.get("usage")) or self._usage
        choice = _first_choice(fields)
        if choice is None:
            return
        self._finish_reason = as_text(choice.get("finish_reason")) or self._finish_reason
        delta = as_fields(choice.get("delta"))
        if delta is not None:
            text, reasoning = read_message(delta)
            self._text.append(text)
            self._reasoning.append(reasoning)

    @property
    def is_finished(self) -> bool:
        """True where the model has said why it ended; only token counts can follow."""
        return bool(self._finish_reason)

    def finish(self) -> Reply:
        """The whole reply; call it once, when no more bytes come.

        Raises:
            MalformedReply: the stream ended before the model did (it never said why it finished).
        """
        try:
            self.feed(b"\n\n")
        except (MalformedReply, ValueError, RecursionError):
            # A finished reply is paid for and returned, even if later bytes are broken.
            if not self._finish_reason:
                raise
        if not self._chunks and self._stray:
            data = b"\n".join(self._stray)
            try:
                body = json.loads(data)
            except ValueError:
                body = data[:1000].decode("utf-8", "replace")
            return read_reply(body)
        if not self._finish_reason:
            raise MalformedReply(f"the stream was cut after {self._chunks} chunks, before a finish reason")
        return Reply(
            text=_whole_characters("".join(self._text)),
            reasoning=_whole_characters("".join(self._reasoning)),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            response_id=self._response_id,
        )


def read_usage(value: object) -> Usage | None:
    """Token counts under the names endpoints use for them; None when there are none, or none that can be."""
    usage = as_fields(value)
    if usage is None:
        return None
    prompt = as_fields(usage.get("prompt_tokens_details")) or {}
    completion = as_fields(usage.get("completion_tokens_details")) or {}
    totals = [_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    if None in totals:
        return None
    counts = Usage(
        prompt_tokens=totals[0] or 0,
        completion_tokens=totals[1] or 0,
        reasoning_tokens=_count(completion.get("reasoning_tokens")) or 0,
        cached_tokens=_count(prompt.get("cached_tokens"))
        or _count(usage.get("prompt_cache_hit_tokens"))
        or 0,
    )
    return counts if counts != Usage() else None


def read_message(message: Mapping[str, object]) -> tuple[str, str]:
    """The text and the reasoning of a message, or of a part of it."""
    reasoning = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    content = message.get("content")
    if not isinstance(content, list):
        return as_text(content) or as_text(message.get("refusal")), reasoning
    text = ""
    for part in content:
        if not isinstance(part, Mapping):
            text += as_text(part)
            continue
        thought = part.get("thinking")
        if isinstance(thought, list):
            reasoning += "".join(as_text((as_fields(piece) or {}).get("text")) for piece in thought)
        reasoning += as_text(thought)
        text += as_text(part.get("text"))
    return text, reasoning


def _whole_characters(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _raise_error(fields: Mapping[str, object]) -> None:
    error = fields.get("error")
    if not error:
        return
    details = as_fields(error) or {}
    code = details.get("code")
    status = int(code) if isinstance(code, int | str) and str(code).isdecimal() else None
    message = as_text(details.get("message")) or _excerpt(error)
    raise MalformedReply(f"the endpoint answered 200 with an error: {message}", status=status)


def _first_choice(fields: Mapping[str, object]) -> Mapping[str, object] | None:
    choices = fields.get("choices")
    return as_fields(choices[0]) if isinstance(choices, list) and choices else None


def as_fields(value: object) -> Mapping[str, object] | None:
    """A JSON object; None for any other value."""
    return value if isinstance(value, Mapping) else None


def as_text(value: object) -> str:
    """A string; empty for any other value."""
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    if not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < MOST_TOKENS else None


def _excerpt(value: object) -> str:
    text = " ".join(str(value).split())
    return repr(text if len(text) <= 120 else f"{text[:117]}...")
