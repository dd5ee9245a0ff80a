"""A reply made elsewhere, and the error of a file that holds none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from kernelwright.agent.records.messages import Message, Usage
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import Record

OnSkip: TypeAlias = Callable[[str], None]
"""Called for every part of a file without a reply, with its place and the reason."""


Label: TypeAlias = Annotated[str, AfterValidator(whole_characters)]
"""A name, which a line of a log can hold; texts keep halves of characters."""


class UnreadableImport(Exception):
    """A file that cannot be imported; the message names the expected form."""


class ImportedReply(Record):
    """One reply of a file; None and empty where the file does not say."""

    origin: Label
    """File, and line where one file holds several."""
    text: str
    reasoning: str = ""
    messages: tuple[Message, ...] = ()
    """The prompt, where it is known apart from the reply."""
    problem: Label | None = None
    """The problem's name in the file."""
    backend: Label | None = None
    model: Label | None = None
    generated_at: Label | None = None
    """UTC, ISO 8601, where the file's own form could be read."""
    finish_reason: Label = ""
    usage: Usage = Usage()
    response_id: Label = ""
    is_module: bool = False
    """True when the text is the candidate's module itself, not a reply around it."""
