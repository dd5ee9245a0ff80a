"""Texts of an archive as a dataset holds them: messages, sources, policies, and the machine of a score."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TypeAlias

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets.export_settings import Reasoning
from kernelwright.agent.extraction.extract import without_thoughts
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.agent.records.tokens import estimate_tokens
from kernelwright.evaluator import EvaluationConfig

Turn: TypeAlias = dict[str, str]
"""One message: its role and its content."""


class MessageTexts:
    """Reads texts of an archive.

    Every method raises `ArchiveError` where a text is missing or damaged.
    """

    def __init__(self, archive: Archive, reasoning: Reasoning) -> None:
        self._archive = archive
        self._reasoning = reasoning
        self.policy = lru_cache(maxsize=64)(self._policy)
        """The policy a run evaluates under, JSON."""
        self.reference = lru_cache(maxsize=1024)(self._reference)
        """The source of a problem as a run used it; empty where the run did not record it."""

    def prompt(self, attempt: Attempt) -> list[Turn]:
        return [
            {"role": message.role, "content": whole_characters(message.content)}
            for message in self._archive.messages(attempt.completion)
        ]

    def reply(self, attempt: Attempt) -> str:
        """Its answer: without thoughts, or with them between `<think>` and `</think>`."""
        text = whole_characters(self._archive.reply(attempt.completion))
        if self._reasoning is Reasoning.DROP:
            return without_thoughts(text)
        thoughts = whole_characters(self._archive.reasoning(attempt.completion)).strip()
        return f"<think>\n{thoughts}\n</think>\n\n{text}" if thoughts else text

    def code(self, attempt: Attempt) -> str | None:
        code = self._archive.code(attempt)
        return None if code is None else whole_characters(code)

    def _policy(self, run: str) -> str:
        plan = json.loads(self._archive.text(run, self._archive.started(run).plan))
        return EvaluationConfig.model_validate(plan.get("config", {})).model_dump_json()

    def _reference(self, run: str, problem: str) -> str:
        used = self._archive.problems_used(run).get(problem)
        return "" if used is None else self._archive.text(run, used.source)


def answered(text: str) -> list[Turn]:
    """A reply as the messages of a completion."""
    return [{"role": "assistant", "content": text}]


def tokens(messages: list[Turn]) -> int:
    """An estimate of the tokens of messages, without those of a chat template."""
    return sum(estimate_tokens(message["content"]) for message in messages)
