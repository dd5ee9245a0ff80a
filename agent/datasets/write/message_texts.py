"""Prompts and replies as messages of a dataset, with what the model thought or without."""

from __future__ import annotations

from typing import TypeAlias

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets.export_settings import Reasoning
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.tokens import estimate_tokens

Turn: TypeAlias = dict[str, str]
"""One message: its role and its content."""


class Texts:
    """Reads what was said in an archive."""

    def __init__(self, archive: Archive, reasoning: Reasoning) -> None:
        self._archive = archive
        self._reasoning = reasoning

    def prompt(self, attempt: Attempt) -> list[Turn]:
        """The messages it answered."""
        return [
            {"role": message.role, "content": clean(message.content)}
            for message in self._archive.messages(attempt.completion)
        ]

    def reply(self, attempt: Attempt) -> str:
        """What was answered: without thoughts, or with them between `<think>` and `</think>`."""
        text = clean(self._archive.reply(attempt.completion))
        if self._reasoning is Reasoning.DROP:
            return without_thoughts(text)
        thoughts = clean(self._archive.reasoning(attempt.completion)).strip()
        return f"<think>\n{thoughts}\n</think>\n\n{text}" if thoughts else text

    def code(self, attempt: Attempt) -> str | None:
        """The candidate's source."""
        code = self._archive.code(attempt)
        return None if code is None else clean(code)


def without_thoughts(text: str) -> str:
    """A reply behind its last thought; empty when it never got beyond thinking."""
    said = text.rpartition("</think>")[2]
    return said.partition("<think>")[0].strip()


def clean(text: str) -> str:
    """Valid Unicode; models' broken output can hold halves of characters, which no JSON reader takes."""
    return text.encode("utf-8", "replace").decode()


def answered(text: str) -> list[Turn]:
    """A reply as the messages of a completion."""
    return [{"role": "assistant", "content": text}]


def tokens(messages: list[Turn]) -> int:
    """An estimate of the tokens of messages, without those of a chat template."""
    return sum(estimate_tokens(message["content"]) for message in messages)
