"""Works through a run: every assignment of its plan, concurrently, until done, spent, broken or interrupted.

Replies are awaited in one event loop, evaluations run in worker threads, and a bounded backlog between them
limits requests. Everything is logged before it counts, so a killed run resumes: its strategies run again from
the start, and recorded attempts come from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kernelwright.agent.archive import RunLog
from kernelwright.agent.evaluation.evaluation_site import BuildsPlainly, Evaluate, ignore
from kernelwright.agent.records.attempt_log import AssignmentDone, RunEnd
from kernelwright.agent.records.budgets import Ledger
from kernelwright.agent.records.messages import Provider
from kernelwright.agent.records.provenance import now
from kernelwright.agent.runner import events
from kernelwright.agent.runner.assignment import RunContext, TaskAssignment
from kernelwright.agent.runner.attempt_evaluator import AttemptEvaluator
from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.agent.runner.kernel_keeper import KernelKeeper
from kernelwright.agent.runner.plan import Task, budget_of, read_plan, tasks
from kernelwright.agent.runner.requester import Requester
from kernelwright.agent.runner.shutdown import StopConditions, close_run, interrupts
from kernelwright.agent.strategies import Exemplar, Prompts
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import ConfigError, Problem


@dataclass(kw_only=True)
class BatchRunner:
    """A run and its dependencies; works through it once."""

    log: RunLog
    workspace: Workspace
    providers: Mapping[str, Provider] | None
    """By model name; None sends no requests and works with recorded replies."""
    evaluate: Evaluate | None
    """Evaluates one candidate; called in several threads. None leaves evaluation to a later process."""
    prompts: Prompts
    builds_plainly: BuildsPlainly | None = None
    """Rebuilds a kernel with torch's own headers; None if that is impossible here."""
    exemplars: Mapping[str, tuple[Exemplar, ...]] = field(default_factory=dict)
    """Saved kernels that openings show, by `plan.shown_for`."""
    completions: int = 8
    """Concurrent requests."""
    evaluators: int = 1
    """Concurrent evaluations."""
    backlog: int = 8
    """Most replies that wait for evaluation before requests pause."""
    on_event: Callable[[events.Event], None] = ignore
    """Called in the thread that runs the batch."""

    def __post_init__(self) -> None:
        """Read the plan; raises ValueError if it names a model that has no provider."""
        log, emit, stop = self.log, self.on_event, StopConditions()
        plan = read_plan(log.archive, log.run)
        missing = [model.name for model in plan.models if model.name not in (self.providers or {})]
        if self.providers is not None and plan.strategy.asks and missing:
            raise ValueError(f"no provider for {', '.join(missing)}")
        self._stop = stop
        self._problems: dict[str, Problem] = log.archive.problems(log.run)
        ledger = Ledger(budget_of(log), log.index.spent())
        slots, workers = asyncio.Semaphore(self.completions), EvaluationScheduler(self.evaluators)
        builds_plainly = self.builds_plainly if plan.plain_build else None
        self._shared = RunContext(
            plan=plan,
            log=log,
            prompts=self.prompts,
            requester=Requester(log, self.providers, ledger, stop, emit, slots),
            evaluator=AttemptEvaluator(log, plan.config, self.evaluate, stop, emit, workers),
            keeper=KernelKeeper(log, self.workspace, stop, emit, builds_plainly, plan.keep_slower),
            exemplars=self.exemplars,
            room=asyncio.Semaphore(self.completions + self.backlog),
        )
        self._waiting = {seen.problem for seen in log.index.attempts.values() if seen.evaluation is None}
        """Problems with unevaluated replies; a spent budget does not stop their evaluation."""
        self._complete = True
        self._unconfirmed = 0
        """Tasks whose best attempt could not be measured again."""

    def run(self) -> events.RunSummary:
        """Work until the run stops; return its summary.

        The first Ctrl-C stops new requests and waits for work in flight; the second ends the process.

        Raises:
            KeyboardInterrupt: interrupted twice; the log is intact and the run can be resumed.
            OSError: the log or `generated/` cannot be written; what was recorded is safe.
        """
        return asyncio.run(self._work())

    async def _work(self) -> events.RunSummary:
        log, everything = self.log, list(tasks(self._shared.plan))
        todo = [task for task in everything if task.key not in log.index.finished]
        self.on_event(
            events.RunOpened(
                run_id=log.run,
                assignments=len(everything),
                finished=len(everything) - len(todo),
                attempts_planned=sum(task.strategy.planned for task in everything),
                resumed_attempts=len(log.index.attempts),
                judges=self.evaluate is not None,
            )
        )
        try:
            with interrupts(self._interrupt):
                await self._work_through(todo)
        finally:
            self._shared.evaluator.workers.close()
            self._shared.keeper.builds.close()
            providers = (self.providers or {}).values()
            for provider in {id(provider): provider for provider in providers}.values():
                await provider.close()
        return await close_run(
            log,
            *self._end(),
            self.on_event,
            provider_failures=self._shared.requester.failures,
            evaluator_failures=self._shared.evaluator.failures,
            to_come=self._shared.requester.missing,
            skipped=self._shared.evaluator.skipped,
        )

    async def _work_through(self, todo: list[Task]) -> None:
        for name, message in self._impossible():
            await self._shared.evaluator.skip(name, message)
        queue = iter(todo)
        width = min(len(todo), self.completions + self.backlog + self.evaluators)
        loops = [asyncio.ensure_future(self._take(queue)) for _ in range(width)]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    def _impossible(self) -> Iterator[tuple[str, str]]:
        for name in self._shared.plan.problems:
            try:
                self._problems[name].overrides(self._shared.plan.config.shapes)
            except ConfigError as error:
                yield name, str(error)

    async def _take(self, queue: Iterator[Task]) -> None:
        for task in queue:
            if self._stop.is_evaluation_over or (
                self._stop.is_asking_over and task.problem not in self._waiting
            ):
                self._complete = False
            elif task.problem not in self._shared.evaluator.skipped:
                await self._assign(task)

    async def _assign(self, task: Task) -> None:
        self.on_event(events.AssignmentStarted(**task.names))
        assignment = TaskAssignment(self._shared, task, self._problems[task.problem])
        attempts = await task.strategy.solve(assignment)
        if self._shared.plan.confirm:
            attempts = await assignment.confirm_best(attempts)
            self._unconfirmed += not assignment.is_confirmed
        skipped = task.problem in self._shared.evaluator.skipped
        if assignment.is_complete and not skipped:
            line = AssignmentDone(at=now(), **task.names, attempts=len(attempts))
            await asyncio.to_thread(self.log.append, line)
        self._complete = self._complete and (assignment.is_complete or skipped)
        speeds = [attempt.speedup for attempt in attempts if attempt.passed and attempt.speedup is not None]
        self.on_event(
            events.AssignmentFinished(
                **task.names,
                attempts=len(attempts),
                passed=sum(attempt.passed for attempt in attempts),
                speedup=max(speeds, default=None),
                complete=assignment.is_complete,
            )
        )

    def _interrupt(self) -> None:
        self._stop.set(RunEnd.INTERRUPTED, "interrupted")
        self.on_event(
            events.Interrupting(
                replies=self._shared.requester.in_flight,
                evaluations=self._shared.evaluator.in_flight,
                kernels=self._shared.keeper.in_flight,
            )
        )

    def _end(self) -> tuple[RunEnd, str]:
        requester, evaluator = self._shared.requester, self._shared.evaluator
        if self._stop.end is not None:
            return self._stop.end, self._stop.reason
        if self._complete:
            return RunEnd.COMPLETE, ""
        if self.evaluate is None and not requester.failures:
            return RunEnd.ASKED, ""
        if self.providers is None:
            return RunEnd.INCOMPLETE, f"{requester.missing} replies are still to come"
        left = (
            (requester.failures, "question", "questions", "got no reply"),
            (evaluator.failures, "reply", "replies", "got no evaluation"),
            (self._unconfirmed, "best attempt", "best attempts", "could not be measured again undisturbed"),
        )
        told = ", ".join(
            f"{count} {one if count == 1 else many} {text}" for count, one, many, text in left if count
        )
        return RunEnd.INCOMPLETE, f"{told or 'problems are left'}; a resume tries again"
