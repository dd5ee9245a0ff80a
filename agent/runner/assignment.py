"""One assignment as its strategy sees it: requests and evaluations, recorded in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.agent.archive import RunLog
from kernelwright.agent.records.attempt_log import Attempt, AttemptKey
from kernelwright.agent.records.attempt_view import view_of
from kernelwright.agent.records.budgets import Ledger
from kernelwright.agent.records.messages import Message
from kernelwright.agent.runner.attempt_evaluator import AttemptEvaluator, Case
from kernelwright.agent.runner.kernel_keeper import KernelKeeper
from kernelwright.agent.runner.plan import Plan, Task, seed_of, shown_for
from kernelwright.agent.runner.requester import PendingQuestion, Requester
from kernelwright.agent.strategies import AssignmentSpentError, Exemplar, NoAttemptError, Prompts, Question
from kernelwright.evaluator import ConfigError, Evaluation, Problem, ProblemError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Shared by all assignments of a run."""

    plan: Plan
    log: RunLog
    prompts: Prompts
    requester: Requester
    evaluator: AttemptEvaluator
    keeper: KernelKeeper
    room: asyncio.Semaphore
    """Places for attempts between their request and their evaluation."""
    exemplars: Mapping[str, tuple[Exemplar, ...]]
    """By `shown_for`."""


class TaskAssignment:
    """Implements `kernelwright.agent.strategies.Assignment` for one task."""

    def __init__(self, context: RunContext, task: Task, problem: Problem) -> None:
        self.problem = problem
        self.backend = task.backend
        self.seed = seed_of(context.plan, task)
        self.prompts = context.prompts
        self.exemplars = context.exemplars.get(shown_for(task.problem, task.backend), ())
        self.is_complete = True
        """False once something is left for a resume to try again."""
        self.is_confirmed = True
        """False once the best attempt could not be measured again."""
        self._context = context
        self._task = task
        self._ledger = Ledger(context.plan.problem_budget)
        self._places: set[str] = set()

    def has(self, sample: int, turn: int) -> bool:
        return self._key(sample, turn).attempt in self._context.log.index.attempts

    async def ask(self, question: Question) -> Attempt:
        """Return the recorded reply, or request one."""
        key = self._key(question.sample, question.turn)
        asked = PendingQuestion(key, self._task.model, question, self._ledger)
        recorded = self._context.requester.recall(asked)
        if recorded is not None:
            return recorded
        with self._noting_what_is_left():
            return await self._ask(asked)

    async def evaluate(self, attempt: Attempt, twin: Attempt | None = None) -> Attempt:
        """Return the recorded evaluation, or make one; save the kernel if it passed."""
        try:
            with self._noting_what_is_left():
                evaluated = await self._evaluate_once(attempt, twin)
        finally:
            self._leave(attempt.id)
        await self._context.keeper.keep(evaluated)
        return evaluated

    async def confirm_best(self, attempts: list[Attempt]) -> list[Attempt]:
        """Evaluate the best attempt again, until the best is one that was; its second evaluation counts.

        The best of several measurements is a lucky one; one candidate alone is not measured again.
        """
        tried: set[str] = set()
        while (best := _unconfirmed_best(attempts)) is not None and best.id not in tried:
            tried.add(best.id)
            try:
                again = await self._context.evaluator.confirm(self._case(best))
            except NoAttemptError:
                again = None
            if again is None:
                # The machine failed or was too busy; a resume tries again.
                self.is_complete = self.is_confirmed = False
                break
            await self._context.keeper.keep(again)
            attempts = [await self._with_twin(attempt, again) for attempt in attempts]
        return attempts

    async def _with_twin(self, attempt: Attempt, again: Attempt) -> Attempt:
        if attempt.id == again.id or _candidate(attempt) != _candidate(again):
            return again if attempt.id == again.id else attempt
        return await self._context.evaluator.reuse(attempt, again)

    def messages(self, attempt: Attempt) -> tuple[Message, ...]:
        return self._context.log.archive.messages(attempt.completion)

    def reply(self, attempt: Attempt) -> str:
        return self._context.log.archive.reply(attempt.completion)

    def code(self, attempt: Attempt) -> str | None:
        return self._context.log.archive.code(attempt)

    def evaluation(self, attempt: Attempt) -> Evaluation:
        return self._context.evaluator.evaluation(attempt)

    def _key(self, sample: int, turn: int) -> AttemptKey:
        return AttemptKey(run=self._context.log.run, **self._task.names, sample=sample, turn=turn)

    @contextmanager
    def _noting_what_is_left(self) -> Iterator[None]:
        try:
            yield
        except NoAttemptError as error:
            # A resume does not change a spent budget of the assignment.
            self.is_complete &= isinstance(error, AssignmentSpentError)
            raise

    async def _ask(self, asked: PendingQuestion) -> Attempt:
        await self._context.room.acquire()
        self._places.add(asked.key.attempt)
        try:
            self._context.requester.refuse_if_over(self._task.model.name)
            if why := self._context.evaluator.refusal(self.problem.id):
                raise NoAttemptError(why)
            return await self._context.requester.ask(asked)
        except (ProblemError, ConfigError) as error:
            # The prompt cannot be made for this problem; other problems are unaffected.
            self._leave(asked.key.attempt)
            await self._context.evaluator.skip(self.problem.id, str(error))
            raise NoAttemptError(str(error)) from None
        except BaseException:
            self._leave(asked.key.attempt)
            raise

    async def _evaluate_once(self, attempt: Attempt, twin: Attempt | None) -> Attempt:
        evaluator = self._context.evaluator
        if attempt.evaluation is not None:
            evaluator.report(attempt, recorded=True)
            return attempt
        if twin is not None:
            return await evaluator.reuse(attempt, twin)
        return await evaluator.evaluate(self._case(attempt))

    def _case(self, attempt: Attempt) -> Case:
        return Case(self.problem, attempt, self.code(attempt), begun=lambda: self._leave(attempt.id))

    def _leave(self, attempt: str) -> None:
        if attempt in self._places:
            self._places.remove(attempt)
            self._context.room.release()


def _candidate(attempt: Attempt) -> str:
    return attempt.evaluation.score.candidate_sha if attempt.evaluation else ""


def _unconfirmed_best(attempts: Sequence[Attempt]) -> Attempt | None:
    """The fastest of several measured candidates, unless it was measured again."""
    measured = [view for view in map(view_of, attempts) if view.low is not None]
    if len({view.candidate for view in measured}) < 2:
        return None
    best = max(measured, key=lambda view: view.speedup or 0.0)
    if any(view.is_confirmed for view in measured if view.candidate == best.candidate):
        return None
    return next(attempt for attempt in attempts if attempt.id == best.attempt)
