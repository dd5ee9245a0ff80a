"""`sample`: one question, asked several times independently."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal, Self

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.strategies.base import Assignment, NoAttemptError, Question, opening, shown
from kernelwright.agent.strategies.strategy import Independent, Strategy


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
        made = await asyncio.gather(*(_one(work, sample) for sample in range(self.samples)))
        return [attempt for attempt in made if attempt is not None]


async def _one(work: Assignment, sample: int) -> Attempt | None:
    question = Question(sample=sample, turn=0, compose=lambda: opening(work), exemplars=shown(work))
    try:
        return await work.evaluate(await work.ask(question))
    except NoAttemptError:
        return None
