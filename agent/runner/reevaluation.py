"""Saved kernels evaluated again, several in flight; each result is reported as soon as it is known.

Results also go to a file, one line each, so that the same command goes on after an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from kernelwright.agent.archive.reproduction import (
    Reproduction,
    ReproductionOutcome,
    after_another,
    is_settled,
    needs_another,
    not_comparable,
)
from kernelwright.agent.evaluation.evaluation_site import Evaluate, EvaluationHooks, EvaluationRequest
from kernelwright.agent.records.score_policy import TASK_SETTINGS, policy_of
from kernelwright.agent.records.strict_json import strict_json
from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import (
    CancelToken,
    Candidate,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    Problem,
    Record,
    source_sha,
)

Decide: TypeAlias = Callable[[str, Evaluation, Evaluation], Reproduction]
"""Compares a kernel's saved evaluation with a new one."""


@dataclass(frozen=True, slots=True)
class ReevaluationJob:
    """A kernel to evaluate again."""

    kernel: Kernel
    before: Evaluation
    config: EvaluationConfig

    @property
    def key(self) -> tuple[str, ...]:
        """Candidate, problem and settings."""
        return _key(self.kernel.record.sha, self.kernel.record.problem_sha, self.config)


class SavedResult(Record):
    """A line of a `ResultFile`."""

    command: str
    """The command that made it: what one decides is no answer to the other."""
    machine: str
    """Name of the machine that evaluated, or of the judges elsewhere."""
    asked: EvaluationConfig
    """The settings that were asked for; a judge elsewhere has limits and a sandbox of its own."""
    result: Reproduction


class ResultFile:
    """Results of earlier, interrupted commands, and of this one; lines of JSON. Raises OSError."""

    def __init__(self, path: Path | None, command: str, machine: str) -> None:
        """Read the file, if there is one; a line cut off by an interruption is not counted."""
        self._path = path
        self._command = command
        self._machine = machine
        self._known: dict[tuple[str, ...], Reproduction] = {}
        # Bytes: a text has more ends of lines than JSON, and half a character at a torn end.
        lines = path.read_bytes().split(b"\n") if path is not None and path.exists() else []
        for line in lines:
            try:
                saved = SavedResult.model_validate_json(line)
            except ValidationError:
                continue
            after = saved.result.after
            is_ours = (saved.command, saved.machine) == (command, machine)
            if is_ours and after is not None and after.evaluator_sha == source_sha():
                key = _key(after.candidate_sha, after.problem_sha, saved.asked)
                self._known[key] = saved.result

    def find(self, job: ReevaluationJob) -> Reproduction | None:
        """The settled result of this command, machine and evaluator for that kernel, score and settings."""
        found = self._known.get(job.key)
        if found is None or not is_settled(found):
            return None
        # The score is the one that was compared, or the one that came of it.
        known = [score for score in (found.before, found.after) if score is not None]
        return found if _identity(job.before) in map(_identity, known) else None

    def add(self, job: ReevaluationJob, found: Reproduction) -> None:
        """Append the result of a kernel."""
        if self._path is not None:
            saved = SavedResult(command=self._command, machine=self._machine, asked=job.config, result=found)
            with self._path.open("ab") as file:
                # An interruption may have left half a line.
                file.write(f"\n{strict_json(saved)}\n".encode("ascii"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reevaluation:
    """Evaluates saved kernels again."""

    evaluate: Evaluate
    references: Mapping[str, Problem]
    """By the hash of their source."""
    decide: Decide
    results: ResultFile
    workers: int
    on_result: Callable[[ReevaluationJob, Reproduction], None]
    """Called in the calling thread, for results of the file too."""
    _running: list[CancelToken] = field(default_factory=list)

    def run(self, jobs: Sequence[ReevaluationJob]) -> None:
        """Evaluate all.

        Raises:
            KeyboardInterrupt: interrupted; the results so far are reported and in the file.
            OSError: the file cannot be written.
        """
        asyncio.run(self._all(jobs))

    async def _all(self, jobs: Sequence[ReevaluationJob]) -> None:
        workers = EvaluationScheduler(self.workers)
        tasks = [asyncio.ensure_future(self._one(job, workers)) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for stop in tuple(self._running):
                stop.set()
            raise
        finally:
            for task in tasks:
                task.cancel()
            workers.close()

    async def _one(self, job: ReevaluationJob, workers: EvaluationScheduler) -> None:
        known = self.results.find(job)
        found = known or await self._twice(job, workers)
        if known is None and found.after is not None:
            self.results.add(job, found)
        self.on_result(job, found)

    async def _twice(self, job: ReevaluationJob, workers: EvaluationScheduler) -> Reproduction:
        first = await self._once(job, workers, (job.before,))
        if not needs_another(first):
            return first
        seen = (job.before, first.after) if first.after else (job.before,)
        second = await self._once(job, workers, seen)
        return second if second.after is None else after_another(first, second)

    async def _once(
        self, job: ReevaluationJob, workers: EvaluationScheduler, seen: tuple[Evaluation, ...]
    ) -> Reproduction:
        kernel, record = job.kernel, job.kernel.record
        problem = self.references.get(record.problem_sha)
        if problem is None:
            is_known = any(known.id == record.problem for known in self.references.values())
            why = (
                "the problem's source has changed since"
                if is_known
                else f"problem {record.problem} not found"
            )
            return not_comparable(kernel.id, job.before, f"{why}; name its file with --problem")
        # One reference may have several names; the kernel stays under its own.
        named = problem.model_copy(update={"id": record.problem})
        candidate = Candidate(source=kernel.source, backend=record.backend)

        def evaluate() -> Evaluation:
            stop = CancelToken()
            self._running.append(stop)
            try:
                request = EvaluationRequest(named, candidate, job.config, besides=seen)
                return self.evaluate(request, EvaluationHooks(stop=stop))
            finally:
                self._running.remove(stop)

        try:
            after = await workers.run(record.problem_sha, evaluate)
        except EvaluatorError as error:
            return not_comparable(kernel.id, job.before, str(error))
        return self.decide(kernel.id, job.before, after)


def _identity(score: Evaluation) -> tuple[object, ...]:
    return policy_of(score), score.evaluated_at, score.speedup


def _key(candidate_sha: str, problem_sha: str, config: EvaluationConfig) -> tuple[str, ...]:
    return candidate_sha, problem_sha, config.model_dump_json()


def is_not_refuted(found: Reproduction) -> bool:
    """True unless a new evaluation contradicts the score; a kernel that could not be evaluated stands."""
    return found.outcome in (
        ReproductionOutcome.REPRODUCED,
        ReproductionOutcome.RESCORED,
        ReproductionOutcome.NOT_COMPARABLE,
    )


def rescoring(
    kernels: Iterable[Kernel], config: EvaluationConfig, named: frozenset[str]
) -> list[ReevaluationJob]:
    """Every task that a kernel has a score for, once, under one policy.

    Of the settings that define a task (`TASK_SETTINGS`), those in `named`, by their paths, are the config's;
    the others are the score's.
    """
    jobs: dict[tuple[str, ...], ReevaluationJob] = {}
    for kernel in kernels:
        for score in sorted(kernel.record.scores, key=lambda score: score.evaluated_at, reverse=True):
            own = [name for name in TASK_SETTINGS if f"evaluation.{name}" not in named]
            job = ReevaluationJob(kernel, score, config.on_terms_of(score.config, own))
            jobs.setdefault(job.key, job)
    return list(jobs.values())
