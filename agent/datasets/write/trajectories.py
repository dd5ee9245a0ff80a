"""Attempts as conversations: all messages in their order, and the reward of each turn.

A turn that did worse than an earlier one is rolled back: the next continues the better one and never sees
the worse. Such a conversation is not linear; each turn names the message that it continues. Turns scored
under two policies, as after a resume elsewhere, are in two rows: their rewards do not compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelwright.agent.datasets.select.attempt_stage import Doubt
from kernelwright.agent.datasets.write.columns import Row
from kernelwright.agent.datasets.write.dataset_rows import problem_of, source_of, worth
from kernelwright.agent.datasets.write.message_texts import (
    MessageTexts,
    Turn,
    answered,
    tokens,
)
from kernelwright.agent.extraction.extract import without_thoughts
from kernelwright.agent.leaderboard.display_text import without_folders
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.score_policy import ScorePolicy


@dataclass(frozen=True, slots=True)
class TrajectoryTurn:
    """One turn of a conversation."""

    facts: AttemptView
    attempt: Attempt
    doubt: Doubt


def conversations(attempts: Iterable[AttemptView]) -> Iterator[list[AttemptView]]:
    """A problem's attempts, a list for each conversation, turns in order."""
    found: dict[object, list[AttemptView]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.problem_sha, *attempt.conversation].append(attempt)
    for turns in found.values():
        yield sorted(turns, key=lambda attempt: attempt.turn)


def trajectory_rows(texts: MessageTexts, turns: Sequence[TrajectoryTurn]) -> Iterator[Row]:
    """One row for a conversation; more where turns do not continue one another, or another policy begins."""
    part: list[TrajectoryTurn] = []
    opening: list[Turn] = []
    policy: ScorePolicy | None = None
    for turn in turns:
        prompt = texts.prompt(turn.attempt)
        # What reached no device was scored by the settings alone, which a run has once.
        own = turn.facts.policy if turn.facts.policy.hardware is not None else None
        is_other = None not in (own, policy) and own != policy
        if part and (is_other or not _continues(prompt, opening)):
            yield _row(texts, part)
            part, policy = [], None
        policy = own or policy
        if not part:
            opening = prompt
        part.append(turn)
    if part:
        yield _row(texts, part)


def _continues(prompt: list[Turn], opening: list[Turn]) -> bool:
    # A prompt whose answer held no code is repeated with a remark added to it.
    return len(prompt) >= len(opening) and all(
        message["role"] == first["role"] and message["content"].startswith(first["content"])
        for message, first in zip(prompt, opening, strict=False)
    )


def _row(texts: MessageTexts, part: Sequence[TrajectoryTurn]) -> Row:
    messages: list[Turn] = []
    turns: list[Row] = []
    answers: list[tuple[int, str]] = []
    for turn in part:
        prompt = texts.prompt(turn.attempt)
        continues = _continued(prompt, answers)
        messages += prompt if not messages else prompt[-1:]
        reply = texts.reply(turn.attempt)
        messages += answered(reply)
        turns.append(_turn(turn, message=len(messages) - 1, continues=continues))
        answers.append((len(messages) - 1, without_thoughts(reply)))
    previous = [-1, *(place for place, _ in answers[:-1])]
    return {
        "messages": messages,
        **problem_of(part[0].facts),
        "turns": turns,
        "rewards": [turn["reward"] for turn in turns],
        "is_linear": [turn["continues"] for turn in turns] == previous,
        "tokens": tokens(messages),
        "source": source_of(part[-1].attempt),
    }


def _continued(prompt: list[Turn], answers: list[tuple[int, str]]) -> int:
    """Place of the answer that the prompt continues; -1 where it continues none."""
    said = [message["content"].strip() for message in prompt if message["role"] == "assistant"]
    if not said:
        return -1
    return next((place for place, answer in reversed(answers) if answer == said[-1]), -1)


def _turn(of: TrajectoryTurn, *, message: int, continues: int) -> Row:
    facts, attempt = of.facts, of.attempt
    score = attempt.evaluation.score if attempt.evaluation else None
    return {
        "attempt": attempt.id,
        "turn": facts.turn,
        "message": message,
        "continues": continues,
        "status": facts.status.value if facts.status else None,
        "detail": without_folders(score.detail) if score else None,
        "speedup": score.speedup if score else None,
        "speedup_low": facts.low,
        "unfit": score.why_unfit if score else None,
        "policy": score.id if score else None,
        "doubt": of.doubt.value,
        "reward": worth(facts, attempt, of.doubt),
    }
