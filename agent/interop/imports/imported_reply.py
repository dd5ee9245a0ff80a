"""A reply made elsewhere, and the error of a file that holds none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from kernelwright.agent.records.messages import Message, Usage
from kernelwright.evaluator import Record

OnSkip: TypeAlias = Callable[[str], None]
"""Told of every part of a file that gives no reply: where it is, and why."""


def _whole_characters(label: str) -> str:
    # JSON can spell half a character, which no line of a log can hold; texts keep it, names need not.
    return label.encode("utf-8", "replace").decode()


Label: TypeAlias = Annotated[str, AfterValidator(_whole_characters)]


class UnreadableImport(Exception):
    """A file that cannot be taken in; the message says what was expected."""


class ImportedReply(Record):
    """What a file says of one reply; None and empty where it says nothing."""

    origin: Label
    """File, and line where one file holds several."""
    text: str
    reasoning: str = ""
    messages: tuple[Message, ...] = ()
    """The prompt, where it is known apart from the reply."""
    problem: Label | None = None
    """What the file calls the problem."""
    backend: Label | None = None
    model: Label | None = None
    generated_at: Label | None = None
    """UTC, ISO 8601, where the file's own form could be read."""
    finish_reason: Label = ""
    usage: Usage = Usage()
    response_id: Label = ""
    is_module: bool = False
    """True when the text is the candidate's module itself, not a reply around it."""
