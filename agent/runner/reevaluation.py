"""Saved kernels evaluated again, several in flight; each result is reported as soon as it is known.

Results also go to a file, one line each, so that the same command goes on after an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import ValidationError

from kernelwright.agent.archive.reproduction import (
    Reproduction,
    ReproductionOutcome,
    after_another,
    needs_another,
    not_comparable,
)
from kernelwright.agent.runner.worker_pool import WorkerPool
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import (
    CancelToken,
    Candidate,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    Problem,
    source_sha,
)

TASK: Final = ("shapes", "dtype", "math", "passes")
"""Settings that say what is computed, not how it is measured."""

Decide: TypeAlias = Callable[[str, Evaluation, Evaluation], Reproduction]
"""Compares a kernel's saved evaluation with a new one."""
Evaluate: TypeAlias = Callable[[Problem, Candidate, EvaluationConfig, CancelToken], Evaluation]


@dataclass(frozen=True, slots=True)
class Again:
    """A kernel to evaluate again."""

    kernel: Kernel
    before: Evaluation
    config: EvaluationConfig

    @property
    def key(self) -> tuple[str, ...]:
        """Candidate, problem and settings."""
        return self.kernel.record.sha, self.kernel.record.problem_sha, self.config.model_dump_json()


class ResultFile:
    """Results of earlier, interrupted commands, and of this one; lines of JSON."""

    def __init__(self, path: Path | None) -> None:
        """Read the file, if there is one; a line cut off by an interruption is not counted.

        Raises:
            OSError: it cannot be read.
        """
        self._path = path
        self._known: dict[tuple[str, ...], Reproduction] = {}
        lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
        for line in lines:
            try:
                found = Reproduction.model_validate_json(line)
            except ValidationError:
                continue
            if found.after is not None and found.after.evaluator_sha == source_sha():
                self._known[_key(found.after)] = found

    def find(self, job: Again) -> Reproduction | None:
        """The result of this evaluator for the same kernel under the same settings."""
        return self._known.get(job.key)

    def add(self, found: Reproduction) -> None:
        """Append a result.

        Raises:
            OSError: it cannot be written.
        """
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                # An interruption may have left half a line.
                file.write(f"\n{found.model_dump_json()}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reevaluation:
    """Evaluates saved kernels again."""

    evaluate: Evaluate
    references: Mapping[str, Problem]
    """By the hash of their source."""
    decide: Decide
    results: ResultFile
    workers: int
    on_result: Callable[[Again, Reproduction], None]
    """Called in the calling thread, for results of the file too."""
    _running: list[CancelToken] = field(default_factory=list)

    def run(self, jobs: Sequence[Again]) -> None:
        """Evaluate all.

        Raises:
            KeyboardInterrupt: interrupted; the results so far are reported and in the file.
            OSError: the file cannot be written.
        """
        asyncio.run(self._all(jobs))

    async def _all(self, jobs: Sequence[Again]) -> None:
        workers = WorkerPool(self.workers)
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

    async def _one(self, job: Again, workers: WorkerPool) -> None:
        known = self.results.find(job)
        found = known or await self._twice(job, workers)
        if known is None and found.after is not None:
            self.results.add(found)
        self.on_result(job, found)

    async def _twice(self, job: Again, workers: WorkerPool) -> Reproduction:
        first = await self._once(job, workers)
        if not needs_another(first):
            return first
        second = await self._once(job, workers)
        return second if second.after is None else after_another(first, second)

    async def _once(self, job: Again, workers: WorkerPool) -> Reproduction:
        kernel, record = job.kernel, job.kernel.record
        problem = self.references.get(record.problem_sha)
        if problem is None:
            is_known = any(known.id == record.problem for known in self.references.values())
            why = (
                "the problem's source has changed since" if is_known else f"nobody has {record.problem} here"
            )
            return not_comparable(kernel.id, job.before, f"{why}; name its file with --problem")
        # One reference may have several names; the kernel stays under its own.
        named = problem.model_copy(update={"id": record.problem})
        candidate = Candidate(source=kernel.source, backend=record.backend)

        def evaluate() -> Evaluation:
            stop = CancelToken()
            self._running.append(stop)
            try:
                return self.evaluate(named, candidate, job.config, stop)
            finally:
                self._running.remove(stop)

        try:
            after = await workers.run(record.problem_sha, evaluate)
        except EvaluatorError as error:
            return not_comparable(kernel.id, job.before, str(error))
        return self.decide(kernel.id, job.before, after)


def _key(evaluation: Evaluation) -> tuple[str, ...]:
    return evaluation.candidate_sha, evaluation.problem_sha, evaluation.config.model_dump_json()


def holds(found: Reproduction) -> bool:
    """Return whether a kernel is still what its score says; one that could not be evaluated is not denied."""
    return found.outcome in (
        ReproductionOutcome.REPRODUCED,
        ReproductionOutcome.RESCORED,
        ReproductionOutcome.NOT_COMPARABLE,
    )


def rescoring(kernels: Iterable[Kernel], config: EvaluationConfig, named: frozenset[str]) -> list[Again]:
    """Every task that a kernel has a score for, once, under one policy.

    Of the settings that define a task (`TASK`) those in `named`, by their paths, are the config's; the others
    are the score's.
    """
    jobs: dict[tuple[str, ...], Again] = {}
    for kernel in kernels:
        for score in sorted(kernel.record.scores, key=lambda score: score.evaluated_at, reverse=True):
            own = [name for name in TASK if f"evaluation.{name}" not in named]
            job = Again(kernel, score, config.on_terms_of(score.config, own))
            jobs.setdefault(job.key, job)
    return list(jobs.values())
