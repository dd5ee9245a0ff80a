"""`sample`: the same question so many times, each reply on its own."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.strategies.base import Assignment, NoAttemptError, Question, opening, shown
from kernelwright.evaluator import Record


class Sample(Record):
    """Independent samples; best of n."""

    name: Literal["sample"] = "sample"
    samples: int = Field(default=1, ge=1)

    @property
    def planned(self) -> int:
        """Most attempts an assignment makes."""
        return self.samples

    async def solve(self, work: Assignment) -> list[Attempt]:
        """Ask and judge every sample; those that came to nothing are missing."""
        made = await asyncio.gather(*(_one(work, sample) for sample in range(self.samples)))
        return [attempt for attempt in made if attempt is not None]


async def _one(work: Assignment, sample: int) -> Attempt | None:
    question = Question(sample=sample, turn=0, compose=lambda: opening(work), exemplars=shown(work))
    try:
        return await work.judge(await work.ask(question))
    except NoAttemptError:
        return None
