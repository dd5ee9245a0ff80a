"""Races that no tool names: the plain build, called again and again under more threads than there are cores.

A race shows as outputs that are wrong now and then, or wrong differently each time. Outputs that are wrong
alike every time are something else, such as work divided for a fixed number of threads, and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.ipc.contestant_messages import Disturb, SetThreads
from kernelwright.evaluator.ipc.driver_requests import FindSymbols, Start
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.correctness.comparison import Comparison, compare
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.effects import equal_outputs
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import (
    CallMemory,
    ProblemContext,
    begin_configuration,
    begin_load,
    construct,
    lay_out,
)
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status

_VARIED: Final = "stress: correct, but with other bits than undisturbed calls, which all had the same"


@dataclass(slots=True)
class _Tally:
    right: int = 0
    wrong: list[Comparison] = field(default_factory=list)
    first_wrong: list[torch.Tensor] | None = None
    differing: bool = False
    """Two wrong outputs for the same inputs differ."""

    @property
    def is_race(self) -> bool:
        """Wrong only now and then, or wrong in different ways."""
        return bool(self.wrong) and (self.right > 0 or self.differing)


class Stress:
    """Looks for races of one candidate by calling it; its process starts at once, to be ready when needed."""

    def __init__(self, context: ProblemContext, pool: TrialPool, *, seconds: float, call_s: float) -> None:
        """`seconds` is spent calling, start-up not counted; `call_s` bounds one call."""
        self._context = context
        self._pool = pool
        self._seconds = seconds
        self._call_s = call_s
        self._trial: Trial = pool.bases[0]
        self._kind = context.device.torch_device.type
        self._calls = 0
        self._varied = False
        """Correct outputs had other bits than those before."""
        self._right: list[torch.Tensor] | None = None
        """The last outputs that were found correct."""
        self._trouble: CandidateFailed | None = None
        """The failure that ended its preparation."""
        self._is_loaded = False
        self._counts = self._thread_counts()
        threads = self._counts[0] if self._kind == "cpu" else None
        self._worker = WorkerProcess(context.driver, context.device, Start(role="sanitized", threads=threads))

    @property
    def builds(self) -> int:
        """Extensions the candidate asked for."""
        return self._worker.builds.count

    def hidden_by(self) -> set[str]:
        """Words in the candidate's builds by which it can hide from a sanitizer."""
        symbols = Symbols.model_validate(self._context.driver.ask(FindSymbols(id=self._worker.id)).facts)
        return self._worker.builds.sanitizer_words | set(symbols.watched)

    def close(self) -> None:
        self._worker.close()

    def prepare(self, source: str) -> Iterator[None]:
        """Open the device and load the candidate; yields while the process is at it."""
        context, worker = self._context, self._worker
        self._is_loaded = True
        try:
            configured = begin_configuration(context, worker, threads=self._counts[0])
            yield
            configured()
            loaded = begin_load(context, worker, source, class_name="ModelNew")
            yield
            loaded()
        except CandidateFailed as failure:
            self._trouble = failure

    def examine(self, source: str, *, repeatable: bool | None = None) -> tuple[Status | None, str]:
        """A status with its reason; else a remark, empty when nothing stood out.

        `repeatable` says that undisturbed calls gave the same bits, as a GPU should beside other work, too.
        """
        counts = self._counts
        try:
            buffers = self._construct_correct(source)
            if buffers is None:
                return None, "stress: wrong at once in a fresh process; not examined"
            tallies: dict[int, _Tally] = {}
            until = time.monotonic() + policy.STRESS_PATIENCE * self._seconds
            for count in counts:
                if tallies and time.monotonic() > until:
                    break
                tallies[count] = self._call(buffers, count)
        except CandidateFailed as failure:
            return (
                None,
                f"stress with up to {counts[0]} threads: {failure.status.value}: {failure.detail[:300]}",
            )
        status, text = _conclude(tallies)
        if status is None and repeatable and self._varied and self._kind == "cuda":
            text = "; ".join(filter(None, (text, _VARIED)))
        return status, text

    def _thread_counts(self) -> tuple[int, ...]:
        """Numbers of threads, most first: what a first call allocates for threads must do for later ones."""
        if self._kind != "cpu":
            return (self._context.threads,)
        usual = self._context.threads
        most = max(policy.FEWEST_THREADS, usual, min(2 * usual, policy.MOST_THREADS))
        return tuple(sorted({most, 4, 3, 2, 1}, reverse=True))

    def _construct_correct(self, source: str) -> CallBuffers | None:
        """Construct as verification does, by seed or by state; None where neither is correct."""
        context, draw, worker, most = self._context, self._pool.draws[0], self._worker, self._counts[0]
        if not self._is_loaded:
            for _ in self.prepare(source):
                pass
        if self._trouble is not None:
            raise self._trouble
        context.driver.hold(exclusive=False)
        buffers = lay_out(worker, self._trial.arguments, self._trial.expected.output, CallMemory("stress"))
        for state in (None, draw.model.state_dict()):
            construct(context, worker, draw.spec("ModelNew", state=state))
            # The first call has most threads: whatever it allocates for them lasts for later ones.
            for count in (most, context.threads):
                worker.ask(SetThreads(count=count), self._call_s)
                if any(self._once(buffers)[0].mismatch is None for _ in range(policy.FEWEST_CALLS)):
                    return buffers
            if not draw.model.state_dict():
                break
        return None

    def _call(self, buffers: CallBuffers, count: int) -> _Tally:
        self._worker.ask(SetThreads(count=count), self._call_s)
        tally = _Tally()
        until = time.monotonic() + self._seconds / len(self._counts)
        for number in range(policy.MOST_CALLS):
            if number >= policy.FEWEST_CALLS and time.monotonic() > until:
                break
            comparison, outputs = self._once(buffers)
            if comparison.mismatch is None:
                tally.right += 1
                continue
            tally.wrong.append(comparison)
            if tally.first_wrong is None:
                tally.first_wrong = outputs
            else:
                tally.differing |= not equal_outputs(tally.first_wrong, outputs)
        return tally

    def _once(self, buffers: CallBuffers) -> tuple[Comparison, list[torch.Tensor]]:
        buffers.write(self._trial.arguments.leaves)
        self._context.device.synchronize()
        self._disturb()
        self._calls += 1
        buffers.run("m", timeout_s=self._call_s)
        outputs = buffers.read()
        if self._right is not None and equal_outputs(self._right, outputs):
            return Comparison(0.0, None), outputs
        comparison = compare(self._trial.expected, outputs, limit=self._trial.limit, trial="stress")
        if comparison.mismatch is None:
            self._varied |= self._right is not None
            self._right = outputs
        return comparison, outputs

    def _disturb(self) -> None:
        """Keep a GPU busy, so that blocks start in another order: from there and from here by turns."""
        if self._kind == "cpu":
            return
        if self._calls % 2:
            self._worker.ask(Disturb(kind=self._calls // 2), self._call_s)
            return
        work = torch.ones(policy.LOAD_SIZE, policy.LOAD_SIZE, device=self._context.device.torch_device)
        for _ in range(4):
            work = work @ work * 1e-4


def _conclude(tallies: dict[int, _Tally]) -> tuple[Status | None, str]:
    for count, tally in tallies.items():
        if tally.is_race:
            calls = tally.right + len(tally.wrong)
            mismatch = tally.wrong[0].mismatch
            much = f"; {mismatch.wrong} of {mismatch.total} values, {mismatch.pattern}" if mismatch else ""
            return (
                Status.RACE,
                f"stress: {len(tally.wrong)} of {calls} calls with {count} threads were wrong{much}",
            )
    fixed = [count for count, tally in tallies.items() if tally.wrong]
    if fixed:
        return (
            None,
            f"stress: always wrong alike with {', '.join(map(str, fixed))} threads: made for other numbers",
        )
    return None, ""
