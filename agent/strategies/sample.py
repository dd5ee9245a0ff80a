"""`sample`: one question, asked several times independently; `imported`: replies that the log holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.agent.strategies.base import (
    Assignment,
    Independent,
    NoAttemptError,
    Question,
    Strategy,
    opening,
    shown,
)


class Sample(Strategy):
    """Independent samples; the best of them counts."""

    name: Literal["sample"] = "sample"
    samples: int = Field(default=1, ge=1)
    independent: ClassVar = Independent.ATTEMPT

    @property
    def planned(self) -> int:
        return self.samples

    def within(self, attempts: int) -> Self:
        return self.model_copy(update={"samples": attempts})

    async def solve(self, work: Assignment) -> list[Attempt]:
        return await _attempts(
            work,
            (
                Question(sample=sample, turn=0, compose=lambda: opening(work), exemplars=shown(work))
                for sample in range(self.samples)
            ),
        )


class Imported(Strategy):
    """Evaluates imported replies, numbered as samples; not registered, since only an import plans it."""

    name: Literal["imported"] = "imported"
    samples: int = Field(default=1, ge=1)
    """Most replies an assignment holds."""
    independent: ClassVar = Independent.ATTEMPT
    asks: ClassVar = False

    @property
    def planned(self) -> int:
        return self.samples

    async def solve(self, work: Assignment) -> list[Attempt]:
        found = (sample for sample in range(self.samples) if work.has(sample, 0))
        return await _attempts(work, (Question(sample=sample, turn=0, compose=_nothing) for sample in found))


async def _attempts(work: Assignment, questions: Iterable[Question]) -> list[Attempt]:
    made = await asyncio.gather(*(_one(work, question) for question in questions))
    return [attempt for attempt in made if attempt is not None]


async def _one(work: Assignment, question: Question) -> Attempt | None:
    try:
        return await work.evaluate(await work.ask(question))
    except NoAttemptError:
        return None


def _nothing() -> tuple[Message, ...]:
    raise NoAttemptError("an imported reply is missing from the log")
