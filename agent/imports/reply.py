"""A reply made elsewhere, and the error of a file that holds none."""

from __future__ import annotations

from agent.messages import Message, Usage
from evaluator import Record


class UnreadableImport(Exception):
    """A file that cannot be taken in; the message says what was expected."""


class ImportedReply(Record):
    """What a file says of one reply; None and empty where it says nothing."""

    origin: str
    """File, and line where one file holds several."""
    text: str
    reasoning: str = ""
    messages: tuple[Message, ...] = ()
    """The prompt, where it is known apart from the reply."""
    problem: str | None = None
    """What the file calls the problem."""
    backend: str | None = None
    model: str | None = None
    generated_at: str | None = None
    """UTC, ISO 8601, where the file's own form could be read."""
    finish_reason: str = ""
    usage: Usage = Usage()
    response_id: str = ""
    is_module: bool = False
    """True when the text is the candidate's module itself, not a reply around it."""
