"""`refine`: a conversation in turns; each reply is evaluated and the model gets feedback.

The conversation continues from its best reply: a turn worse than a correct one is rolled back, and the next
question mentions it. A reply without code is not shown again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar, Final, Literal, Self

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.agent.strategies.base import (
    Assignment,
    Independent,
    NoAttemptError,
    Question,
    Strategy,
    opening,
    shown,
)
from kernelwright.evaluator import Stage, Status

_STAGES: Final = tuple(Stage)


class Refine(Strategy):
    """Conversations with feedback."""

    name: Literal["refine"] = "refine"
    samples: int = Field(default=1, ge=1)
    """Independent conversations."""
    turns: int = Field(default=4, ge=1)
    """Most replies in a conversation."""
    enough: float | None = Field(default=None, ge=0)
    """Speedup at which a conversation ends early; 0 ends it at the first correct kernel."""
    independent: ClassVar = Independent.SAMPLE

    @property
    def planned(self) -> int:
        return self.samples * self.turns

    def within(self, attempts: int) -> Self:
        turns = min(self.turns, attempts)
        return self.model_copy(update={"samples": -(-attempts // turns), "turns": turns})

    async def solve(self, work: Assignment) -> list[Attempt]:
        conversations = await asyncio.gather(
            *(self._converse(work, sample) for sample in range(self.samples))
        )
        return [attempt for conversation in conversations for attempt in conversation]

    async def _converse(self, work: Assignment, sample: int) -> list[Attempt]:
        history: list[Attempt] = []
        with suppress(NoAttemptError):
            for turn in range(self.turns):
                question = Question(
                    sample=sample,
                    turn=turn,
                    compose=lambda: next_messages(work, history),
                    exemplars=shown(work),
                )
                history.append(await work.evaluate(await work.ask(question)))
                if self._is_enough(history[-1]):
                    break
        return history

    def _is_enough(self, attempt: Attempt) -> bool:
        return self.enough is not None and attempt.passed and (attempt.speedup or 0.0) >= self.enough


def next_messages(work: Assignment, history: list[Attempt]) -> tuple[Message, ...]:
    """Compose the messages after these attempts of one conversation, from the log alone."""
    if not history:
        return opening(work)
    best, last = max(history, key=worth), history[-1]
    if best.passed and worth(last) < worth(best):
        return answered(work, best, worse=last)
    if last.completion.code is None:
        return _asked_again(work, history)
    return answered(work, last)


def worth(attempt: Attempt) -> tuple[bool, float, bool, int]:
    """Return the sort key of an attempt: correct ones by speedup, then those with code by the stage reached.

    A speedup that may not be compared counts as none. A candidate that cheats ranks like a rejected one.
    """
    if attempt.evaluation is None:
        return False, 0.0, False, -1
    score = attempt.evaluation.score
    has_code = attempt.completion.code is not None
    stage = Stage.SCREEN if score.status is Status.TAMPERED else score.stage
    return attempt.passed, attempt.speedup or 0.0, has_code, _STAGES.index(stage)


def answered(work: Assignment, attempt: Attempt, worse: Attempt | None = None) -> tuple[Message, ...]:
    """Compose the conversation up to an attempt with code, and the feedback on it."""
    said = Message(role="assistant", content=spoken(work.reply(attempt)))
    feedback = work.prompts.feedback(
        work.evaluation(attempt), work.code(attempt), work.evaluation(worse) if worse else None
    )
    return (*work.messages(attempt), said, Message(role="user", content=feedback))


def _asked_again(work: Assignment, history: list[Attempt]) -> tuple[Message, ...]:
    # The question that got no code is asked again with feedback, however often it got none.
    first = history[-1]
    for attempt in reversed(history):
        if attempt.completion.code is not None:
            break
        first = attempt
    *before, question = work.messages(first)
    feedback = work.prompts.feedback(work.evaluation(history[-1]), None)
    return (*before, Message(role=question.role, content=f"{question.content}\n\n{feedback}"))


def spoken(reply: str) -> str:
    """Strip the reasoning before a reply; the result is valid Unicode and not empty."""
    said = reply.rpartition("</think>")[2].strip() or reply
    return whole_characters(said)
