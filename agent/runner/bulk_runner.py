"""Sends all samples of a plan to the Batch API and records the replies as they arrive.

That takes hours, so the process may end: requests are saved in the run's folder before they are sent, and
another process can collect them days later. A later process evaluates the replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from kernelwright.agent.archive import RunLog
from kernelwright.agent.providers.batch_api.batch_jobs import BatchJobs
from kernelwright.agent.providers.batch_api.batch_state import Result
from kernelwright.agent.records.attempt_log import AttemptKey, ProblemSkipped, ProviderFailed, RunEnd
from kernelwright.agent.records.messages import CompletionRequest, ProviderError
from kernelwright.agent.records.provenance import now
from kernelwright.agent.runner.events import (
    Event,
    Interrupting,
    ProviderTrouble,
    Replied,
    RunOpened,
    RunSummary,
    Skipped,
    Waiting,
)
from kernelwright.agent.runner.plan import Plan, Task, budget_of, read_plan, shown_for, tasks
from kernelwright.agent.runner.policy import LONGEST_MESSAGE, PROVIDER_STRIKES
from kernelwright.agent.runner.requester import extracted, request_of
from kernelwright.agent.runner.shutdown import StopConditions, close_run, interrupts
from kernelwright.agent.strategies import Exemplar, Independent, Prompts
from kernelwright.evaluator import ConfigError, Problem, ProblemError

FOLDER: Final = "bulk"
"""Folder of a run that holds its batch requests."""


@dataclass(kw_only=True)
class BulkRunner:
    """A run of independent samples, requested through the Batch API; works on it once."""

    log: RunLog
    jobs: BatchJobs
    """Made with `attempt_of(log.run, strategy)` as its key, in the folder `FOLDER` of the run."""
    prompts: Prompts
    exemplars: Mapping[str, tuple[Exemplar, ...]] = field(default_factory=dict)
    """Saved kernels that openings show, by `plan.shown_for`."""
    on_event: Callable[[Event], None]
    poll_s: float = 60.0
    waits: bool = True
    """True waits for every reply; False polls once and returns."""

    def __post_init__(self) -> None:
        """Read the plan; raises ValueError if its strategy is not independent sampling."""
        self._plan: Plan = read_plan(self.log.archive, self.log.run)
        if self._plan.strategy.independent is not Independent.ATTEMPT or self._plan.others:
            raise ValueError(f"only independent samples can be asked in bulk, not {self._plan.strategy.name}")
        self._samples = self._plan.strategy.planned
        self._models = {model.name: model for model in self._plan.models}
        self._stop = StopConditions()
        self._wake = asyncio.Event()
        self._skipped: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        """Attempt id to the reason it gets no reply."""

    def run(self) -> RunSummary:
        """Submit missing requests and collect finished replies.

        Ctrl-C ends the process; submitted batches continue and are found again.

        Raises:
            KeyboardInterrupt: interrupted twice.
            OSError: the log or the run's folder cannot be written.
        """
        return asyncio.run(self._work())

    async def _work(self) -> RunSummary:
        everything = list(tasks(self._plan))
        self.on_event(
            RunOpened(
                run_id=self.log.run,
                assignments=len(everything),
                finished=0,
                attempts_planned=len(everything) * self._samples,
                resumed_attempts=len(self.log.index.attempts),
                judges=False,
            )
        )
        try:
            with interrupts(self._interrupt):
                await asyncio.to_thread(self._submit, everything)
                await self._collect()
        finally:
            await self.jobs.close()
        return await close_run(
            self.log,
            *self._end(),
            self.on_event,
            provider_failures=len(self._refused),
            to_come=self._to_come,
            skipped=self._skipped,
        )

    def _submit(self, everything: list[Task]) -> None:
        problems = self.log.archive.problems(self.log.run)
        limit = budget_of(self.log).attempts
        known = self.log.index.attempts.keys() | set(self.jobs.keys)
        requests: list[CompletionRequest] = []
        for task in everything:
            keys = [
                AttemptKey(run=self.log.run, **task.names, sample=sample) for sample in range(self._samples)
            ]
            missing = [key for key in keys if key.attempt not in known]
            left = len(missing) if limit is None else limit - len(known) - len(requests)
            if missing and left > 0:
                requests += self._compose(task, problems[task.problem], missing[:left])
        self.jobs.submit(requests)

    def _compose(self, task: Task, problem: Problem, keys: list[AttemptKey]) -> list[CompletionRequest]:
        try:
            problem.overrides(self._plan.config.shapes)
            shown = self.exemplars.get(shown_for(problem.id, task.backend), ())
            messages = self.prompts.opening(problem, task.backend, shown)
        except (ProblemError, ConfigError) as error:
            if problem.id not in self._skipped:
                self._skipped[problem.id] = str(error)
                self.log.append(ProblemSkipped(at=now(), problem=problem.id, message=str(error)))
                self.on_event(Skipped(problem=problem.id, message=str(error)))
            return []
        return [request_of(key, task.model, messages) for key in keys]

    async def _collect(self) -> None:
        strikes = 0
        while not self._stop.is_asking_over:
            trouble = ""
            try:
                progress = await self.jobs.advance()
                strikes = 0
            except ProviderError as error:
                progress, trouble = self.jobs.progress, str(error)[:LONGEST_MESSAGE]
                strikes += 1
                if error.fatal or strikes >= PROVIDER_STRIKES:
                    self._stop.set(RunEnd.BROKEN, trouble)
            await asyncio.to_thread(self._record)
            self.on_event(
                Waiting(
                    requests=progress.requests,
                    answered=progress.answered,
                    failed=progress.failed,
                    statuses=progress.statuses,
                    trouble=trouble,
                )
            )
            if progress.is_done or not self.waits:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.poll_s)

    def _record(self) -> None:
        for request, result in self.jobs.results():
            if self._stop.end is RunEnd.BROKEN and self.log.is_disk_full:
                return
            key = _key(self.log.run, self._plan.strategy.name, request)
            if key.attempt not in self.log.index.attempts:
                self._take(key, request, result)
            self._stop.set_if_full(self.log)

    def _take(self, key: AttemptKey, request: CompletionRequest, result: Result) -> None:
        if result.completion is None:
            if key.attempt not in self._refused:
                self._refused[key.attempt] = message = result.error[:LONGEST_MESSAGE]
                line = ProviderFailed(at=now(), attempt=key.attempt, key=key, message=message)
                self.log.append(line)
                self.on_event(ProviderTrouble(of=key, message=message))
            return
        shown = self._plan.exemplars.get(shown_for(key.problem, key.backend), ())
        reply = extracted(self._models[key.model], request, result.completion, exemplars=shown)
        attempt = self.log.record_completion(key, reply)
        self.on_event(Replied.to(attempt, recorded=False))

    @property
    def _to_come(self) -> int:
        progress = self.jobs.progress
        return progress.requests - progress.answered - progress.failed

    def _end(self) -> tuple[RunEnd, str]:
        if self._stop.end is not None:
            return self._stop.end, self._stop.reason
        if self._to_come:
            return RunEnd.ASKED, f"{self._to_come} replies are still to come"
        if self._refused:
            said = next(iter(self._refused.values()))
            return RunEnd.INCOMPLETE, f"{len(self._refused)} questions got no reply: {said}"
        return RunEnd.ASKED, ""

    def _interrupt(self) -> None:
        self._stop.set(RunEnd.INTERRUPTED, "interrupted; batches under way go on")
        self._wake.set()
        self.on_event(Interrupting())


def attempt_of(run: str, strategy: str) -> Callable[[CompletionRequest], str]:
    """Return the function that names a batch request by its attempt, independent of its prompt."""
    return lambda request: _key(run, strategy, request).attempt


def _key(run: str, strategy: str, request: CompletionRequest) -> AttemptKey:
    return AttemptKey(
        run=run,
        problem=request.problem,
        backend=request.backend,
        model=request.model,
        strategy=strategy,
        sample=request.sample,
        turn=request.turn,
    )
