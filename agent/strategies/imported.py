"""`imported`: evaluates replies that the log already holds; sends no request."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.agent.strategies.base import Assignment, NoAttemptError, Question
from kernelwright.agent.strategies.strategy import Independent, Strategy


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
        found = [sample for sample in range(self.samples) if work.has(sample, 0)]
        made = await asyncio.gather(*(_one(work, sample) for sample in found))
        return [attempt for attempt in made if attempt is not None]


async def _one(work: Assignment, sample: int) -> Attempt | None:
    try:
        return await work.evaluate(await work.ask(Question(sample=sample, turn=0, compose=_nothing)))
    except NoAttemptError:
        return None


def _nothing() -> tuple[Message, ...]:
    raise NoAttemptError("an imported reply is missing from the log")
