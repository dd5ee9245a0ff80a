"""Keeps what passed: the kernel to `generated/`, and a line about it to the log."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from agent.archive import RunLog
from agent.batch.events import AttemptName, Event, Kept
from agent.batch.halting import Halt
from agent.provenance import now
from agent.run import Attempt, KernelKept, RunEnd
from agent.workspace import Kernel, Provenance, Workspace


class Keeper:
    """Keeps kernels one at a time. Lives in one event loop."""

    def __init__(self, log: RunLog, workspace: Workspace, halt: Halt, emit: Callable[[Event], None]) -> None:
        self._log = log
        self._workspace = workspace
        self._halt = halt
        self._emit = emit
        self._turn = asyncio.Lock()

    async def keep(self, attempt: Attempt) -> None:
        """Keep an attempt that passed, unless it is kept already or another's verdict was reused for it.

        Where that fails the run stops; a resume keeps it then.
        """
        judged = attempt.evaluation
        if not attempt.passed or judged is None or judged.reused_from is not None:
            return
        async with self._turn:
            if self._log.index.attempts[attempt.id].kept:
                return
            try:
                kernel = await asyncio.to_thread(self._keep, attempt)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._halt.set_full(self._workspace.generated)
                else:
                    self._halt.set(RunEnd.BROKEN, f"cannot keep a kernel: {error}")
                return
        folder = str(kernel.folder)
        self._emit(Kept(AttemptName.of(attempt.key), kernel.id, folder, attempt.speedup))

    def _keep(self, attempt: Attempt) -> Kernel:
        archive = self._log.archive
        source, evaluation = archive.code(attempt), archive.evaluation(attempt)
        if source is None or evaluation is None:
            raise ValueError(f"attempt {attempt.id} passed without code or evaluation")
        kernel = self._workspace.keep(source, evaluation, provenance(attempt))
        folder = kernel.folder.relative_to(self._workspace.root).as_posix()
        self._log.append(KernelKept(at=now(), attempt=attempt.id, kernel=kernel.id, folder=folder))
        return kernel


def provenance(attempt: Attempt) -> Provenance:
    """Where an attempt's kernel comes from."""
    line, key = attempt.completion, attempt.key
    return Provenance(
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
