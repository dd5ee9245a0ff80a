"""`evolve`: a population in generations; the next one is bred from fast and different kernels.

The first generation is independent samples. Later ones show a few earlier kernels of the same problem and
their scores; while nothing is correct yet, the most promising failures are repaired instead. A candidate that
differs from an earlier one only in comments and layout is not evaluated again. Every choice follows from the
log and the assignment's seed, so a resumed run makes the same choices.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import Literal, Self

from pydantic import Field

from kernelwright.agent.extraction.fingerprint import distance, fingerprint
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.messages import Message
from kernelwright.agent.strategies.base import (
    Assignment,
    Exemplar,
    NoAttemptError,
    Question,
    Strategy,
    opening,
    shown,
)
from kernelwright.agent.strategies.refine import answered, worth

TOURNAMENT = 2


class Evolve(Strategy):
    """A population bred by measured speed and diversity."""

    name: Literal["evolve"] = "evolve"
    population: int = Field(default=4, ge=1)
    """Attempts in a generation."""
    generations: int = Field(default=4, ge=1)
    parents: int = Field(default=2, ge=1)
    """Most kernels shown to breed one attempt."""

    @property
    def planned(self) -> int:
        return self.population * self.generations

    def within(self, attempts: int) -> Self:
        population = min(self.population, attempts)
        return self.model_copy(update={"population": population, "generations": -(-attempts // population)})

    async def solve(self, work: Assignment) -> list[Attempt]:
        """Breed the generations; end early if one yields no attempt."""
        population = _Population(work, self)
        for generation in range(self.generations):
            if not await population.breed(generation):
                break
        return population.members


class _Population:
    def __init__(self, work: Assignment, settings: Evolve) -> None:
        self.members: list[Attempt] = []
        self._work = work
        self._settings = settings
        self._marks: dict[str, str] = {}
        """Attempt id to the fingerprint of its code."""
        self._evaluations: dict[str, asyncio.Task[Attempt]] = {}

    async def breed(self, generation: int) -> int:
        pool = self._distinct()
        slots = range(self._settings.population)
        made = await asyncio.gather(*(self._member(pool, generation, slot) for slot in slots))
        born = [attempt for attempt in made if attempt is not None]
        self.members += born
        return len(born)

    def _distinct(self) -> list[Attempt]:
        found: dict[str, Attempt] = {}
        for attempt in sorted(self.members, key=lambda member: (member.key.turn, member.key.sample)):
            if attempt.id in self._marks:
                found.setdefault(self._marks[attempt.id], attempt)
        return list(found.values())

    async def _member(self, pool: list[Attempt], generation: int, slot: int) -> Attempt | None:
        dice = random.Random(f"{self._work.seed}/{generation}/{slot}")
        parents = self._choose(pool, slot, dice)
        question = Question(
            sample=slot,
            turn=generation,
            compose=lambda: compose(self._work, parents),
            parents=tuple(parent.id for parent in parents),
            exemplars=() if parents and parents[0].passed else shown(self._work),
        )
        try:
            return await self._evaluate(await self._work.ask(question))
        except NoAttemptError:
            return None

    def _choose(self, pool: list[Attempt], slot: int, dice: random.Random) -> list[Attempt]:
        correct = [attempt for attempt in pool if attempt.passed]
        if correct:
            return choose(self._work, correct, self._settings.parents, dice)
        failed = sorted(pool, key=worth, reverse=True)
        return [failed[slot % len(failed)]] if failed else []

    async def _evaluate(self, attempt: Attempt) -> Attempt:
        code = self._work.code(attempt)
        if code is None:
            return await self._work.evaluate(attempt)
        mark = self._marks[attempt.id] = fingerprint(code)
        if mark in self._evaluations:
            return await self._work.evaluate(attempt, await self._evaluations[mark])
        self._evaluations[mark] = asyncio.ensure_future(self._work.evaluate(attempt))
        return await self._evaluations[mark]


def choose(work: Assignment, correct: list[Attempt], count: int, dice: random.Random) -> list[Attempt]:
    """Choose parents: the first by a tournament of speed, others by speed and distance to those chosen."""
    speed = _relative_speed(correct)
    first = max(dice.sample(correct, min(TOURNAMENT, len(correct))), key=lambda attempt: speed[attempt.id])
    chosen = [first]
    codes = {attempt.id: work.code(attempt) or "" for attempt in correct}
    while len(chosen) < min(count, len(correct)):
        rest = [attempt for attempt in correct if attempt not in chosen]
        near = {
            attempt.id: min(distance(codes[attempt.id], codes[other.id]) for other in chosen)
            for attempt in rest
        }
        chosen.append(max(rest, key=lambda attempt: speed[attempt.id] + near[attempt.id]))
    return sorted(chosen, key=worth, reverse=True)


def compose(work: Assignment, parents: list[Attempt]) -> tuple[Message, ...]:
    """Compose the next question: the opening, a repair of a failure, or a request to beat correct kernels."""
    if not parents:
        return opening(work)
    if not parents[0].passed:
        return answered(work, parents[0])
    fast = [Exemplar(work.code(parent) or "", work.evaluation(parent)) for parent in parents]
    return work.prompts.opening(work.problem, work.backend, fast)


def _relative_speed(correct: list[Attempt]) -> dict[str, float]:
    logs = {attempt.id: math.log(attempt.speedup or 1.0) for attempt in correct}
    low, high = min(logs.values()), max(logs.values())
    return {name: (value - low) / (high - low) if high > low else 1.0 for name, value in logs.items()}
