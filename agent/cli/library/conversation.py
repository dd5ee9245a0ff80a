"""What was said to make a kept kernel, as far as its run is still here."""

from __future__ import annotations

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.workspace import Provenance


def read_conversation(archive: Archive, made: Provenance) -> list[dict[str, str]]:
    """The messages of the attempt that made a kernel, its reply last; thoughts stand in `reasoning`.

    Raises:
        ArchiveError: its run is not here, or a text of it is missing or damaged.
    """
    line = _attempt(archive, made).completion
    said = [message.model_dump() for message in archive.messages(line)]
    reply = {"role": "assistant", "content": archive.reply(line)}
    thoughts = archive.reasoning(line)
    return [*said, reply | ({"reasoning": thoughts} if thoughts else {})]


def _attempt(archive: Archive, made: Provenance) -> Attempt:
    if made.run is None or made.run not in archive.runs():
        raise ArchiveError(f"its run {made.run or ''} is not here".replace("  ", " "))
    found = next((attempt for attempt in archive.attempts(made.run) if attempt.id == made.attempt), None)
    if found is None:
        raise ArchiveError(f"run {made.run} holds no attempt {made.attempt}")
    return found
