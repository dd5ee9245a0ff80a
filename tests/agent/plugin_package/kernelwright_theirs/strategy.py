"""A strategy: asks again, in the same conversation, until something passes."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.agent.strategies import Assignment, Independent, Question, Strategy
from kernelwright.agent.strategies.base import opening


class Twice(Strategy):
    """Asks the opening again until something passes."""

    name: Literal["theirs"] = "theirs"
    tries: int = Field(default=2, ge=1)
    word: str = "again"
    independent: ClassVar = Independent.SAMPLE

    @property
    def planned(self) -> int:
        return self.tries

    def within(self, attempts: int) -> Twice:
        return self.model_copy(update={"tries": attempts})

    async def solve(self, work: Assignment) -> list[Attempt]:
        made: list[Attempt] = []
        while len(made) < self.tries and not any(attempt.passed for attempt in made):
            question = Question(sample=0, turn=len(made), compose=lambda: self._messages(work, len(made)))
            made.append(await work.evaluate(await work.ask(question)))
        return made

    def _messages(self, work: Assignment, turn: int) -> tuple[Message, ...]:
        *before, last = opening(work)
        text = f"{last.content}\n{self.word} {turn}"
        return (*before, Message(role="user", content=text))
