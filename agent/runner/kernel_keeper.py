"""Saves kernels that passed to `generated/`, each with a line in the log."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.agent.archive import RunLog
from kernelwright.agent.evaluation.evaluation_site import BuildsPlainly
from kernelwright.agent.records.attempt_log import Attempt, KernelKept, KernelRefused, RunEnd
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.score_policy import exclusion_reason, slower
from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.agent.runner.events import Event, Kept, Refused
from kernelwright.agent.runner.policy import MOST_BUILDS
from kernelwright.agent.runner.shutdown import StopConditions
from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import Evaluation, EvaluatorError, FullHeaderBuild, Status


@dataclass(eq=False)
class KernelKeeper:
    """Saves kernels one at a time. Lives in one event loop."""

    log: RunLog
    workspace: Workspace
    stop: StopConditions
    emit: Callable[[Event], None]
    builds_plainly: BuildsPlainly | None = None
    keeps_slower: bool = False
    builds: EvaluationScheduler = field(
        default_factory=lambda: EvaluationScheduler(min(MOST_BUILDS, os.cpu_count() or 1))
    )
    in_flight: int = 0
    """Kernels that are being built with torch's own headers, or saved."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def keep(self, attempt: Attempt) -> None:
        """Save the kernel of an attempt that passed, unless it is saved or its evaluation was reused.

        A kernel that is slower than the fastest baseline, was measured on a busy machine, or does not build
        with torch's own headers is refused. Unless the machine was busy, this or a failure withdraws what
        an earlier evaluation under this policy saved. A failure to save stops the run; a resume tries again.
        """
        line = attempt.evaluation
        if line is None or line.reused_from is not None or self._is_settled(attempt):
            return
        if not (attempt.passed or line.confirms or await asyncio.to_thread(self._is_saved, attempt)):
            return
        self.in_flight += 1
        try:
            plain = await self.builds.run(attempt.key.problem, lambda: self._build(attempt))
            event = await self._save(attempt, plain)
        finally:
            self.in_flight -= 1
        if event is not None:
            self.emit(event)

    async def _save(self, attempt: Attempt, plain: FullHeaderBuild) -> Kept | Refused | None:
        try:
            async with self._turn:
                if self._is_settled(attempt):
                    return None
                return await asyncio.to_thread(self._settle, attempt, plain)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.stop.set_full(self.workspace.generated)
            else:
                self.stop.set(RunEnd.BROKEN, f"cannot save a kernel: {error}")
            return None

    def _is_settled(self, attempt: Attempt) -> bool:
        seen = self.log.index.attempts[attempt.id]
        return seen.kept or seen.refused

    def _build(self, attempt: Attempt) -> FullHeaderBuild:
        if self.builds_plainly is None or not attempt.passed:
            return FullHeaderBuild(ok=None)
        try:
            return self.builds_plainly(self._read(attempt)[1])
        except EvaluatorError as error:
            return FullHeaderBuild(ok=None, why=str(error))

    def _settle(self, attempt: Attempt, plain: FullHeaderBuild) -> Kept | Refused:
        source, evaluation = self._read(attempt)
        if message := self._refusal(evaluation, plain):
            if not exclusion_reason(evaluation):
                self.workspace.withdraw(evaluation)
            self.log.append(KernelRefused(at=now(), attempt=attempt.id, message=message))
            return Refused(of=attempt.key, message=message)
        line, key = attempt.completion, attempt.key
        made = Provenance(
            run=key.run,
            attempt=attempt.id,
            provider=line.provider,
            model=key.model,
            answered_by=line.answered_by,
            strategy=key.strategy,
            sample=key.sample,
            turn=key.turn,
            completed_at=line.completed_at,
            license=line.license,
            origin=line.origin,
        )
        kernel = self.workspace.keep(source, evaluation, made, builds_plainly=plain.ok)
        folder = kernel.folder.relative_to(self.workspace.root).as_posix()
        self.log.append(KernelKept(at=now(), attempt=attempt.id, kernel=kernel.id, folder=folder))
        return Kept(of=attempt.key, kernel=kernel.id, folder=str(kernel.folder), speedup=attempt.speedup)

    def _refusal(self, evaluation: Evaluation, plain: FullHeaderBuild) -> str:
        if evaluation.status is not Status.PASSED:
            return f"evaluated again: {evaluation.status}"
        if why := exclusion_reason(evaluation) or ("" if self.keeps_slower else slower(evaluation)):
            return why
        return f"it does not build with torch's own headers: {plain.why}" if plain.ok is False else ""

    def _is_saved(self, attempt: Attempt) -> bool:
        return attempt.completion.code is not None and self.workspace.is_saved(self._read(attempt)[1])

    def _read(self, attempt: Attempt) -> tuple[str, Evaluation]:
        archive = self.log.archive
        source, evaluation = archive.code(attempt), archive.evaluation(attempt)
        if source is None or evaluation is None:
            raise ValueError(f"attempt {attempt.id} passed without code or evaluation")
        return source, evaluation
