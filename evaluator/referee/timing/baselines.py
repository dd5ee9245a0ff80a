"""The baselines of a problem on this device: the reference by itself, compiled, and in several processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import torch

from kernelwright.evaluator.ipc.driver_requests import Expect
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts
from kernelwright.evaluator.referee.timing.statistics import PROCESSES, process_spread
from kernelwright.evaluator.referee.timing.timing_session import TimingSession
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.launch_gate import LaunchGate
from kernelwright.evaluator.referee.worker.setup import ModelSpec, ProblemContext, load_model, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Timing

_SOLO_TURNS: Final = 9
_WARM_TURNS: Final = 2
_COMPARED_MS: Final = 12.0
"""Of calls in a batch where processes of the reference are compared: they hardly wander there."""
_COMPILE_S: Final = 300.0
_DRIFT: Final = {"cpu": 0.5, "cuda": 0.05}
"""How far, relative, a ratio may be uncertain, and the reference's own time move, until the ratio is measured
anew: on a CPU other users do that to times, and compiling takes a minute."""
_REMEMBERED: Final = ("compile_ratio", "compile_error", "compile_solo_ms", "process_spread")
_COMPARED: Final = {"cpu": 1, "cuda": PROCESSES}
"""Processes of the reference that are compared. On a CPU, whose cores are never ours alone, its other users
move times far more than that, turn by turn, and it would cost seconds of work instead of waiting."""


@dataclass(slots=True)
class Baselines:
    """A problem's reference on this device."""

    eager: CallBuffers
    queued: bool
    """Whether its calls can be queued ahead of the clock."""
    known: BaselineFacts
    """Of calls in that way: what the host takes to launch is in the times of others only."""
    count: int
    """Calls of the batches that this is known from."""
    gate: LaunchGate | None
    most: int
    """Of them are queued while nobody else uses the device."""
    launched_spread: float | None = None
    """Relative standard deviation between processes whose calls are not queued, though they can be; measured
    when the first candidate is met that cannot queue its own."""
    launching_compared: bool = False
    """Whether that was tried."""

    def restore_queue(self) -> None:
        """Let what memory was short of beside one candidate be tried again beside the next."""
        self.eager.gate = self.gate
        if self.gate is not None:
            self.gate.most = self.most

    def beside(self, queued: bool) -> BaselineFacts:
        """What is known beside a candidate; whoever waits for the device pays for launches alone.

        Otherwise a candidate could choose whether those of a reference count.
        """
        if queued == self.queued:
            return self.known
        return replace(self.known, most_ms=self.known.solo_ms, process_spread=self.launched_spread)


class BaselineTimer:
    """Times a problem's reference; owns its processes."""

    def __init__(
        self, ground: ProblemContext, pool: TrialPool, config: EvaluationConfig, bench: TimingSession
    ) -> None:
        self._ground = ground
        self._pool = pool
        self._config = config
        self._bench = bench
        self._kind = bench.kind
        self._found: Baselines | None = None
        self._started: list[WorkerProcess] = []
        """Processes with the reference in them; memory for timed calls is taken by one after the other."""
        self._compiled: CallBuffers | None = None
        self.notes: list[str] = []

    @property
    def known(self) -> bool:
        """Whether `measure` has nothing left to do."""
        return self._found is not None

    def measure(self) -> Baselines:
        """The reference alone: made on first use, kept for every candidate.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        if self._found is None:
            try:
                self._found = self._measure()
            except CandidateFailed as verdict:
                raise ProblemError(f"the reference failed in its sandbox: {verdict.detail}") from verdict
            self._bench.slowest_ms = self._found.known.solo_ms
        return self._found

    def start(self) -> None:
        """Start the processes that `measure` will time, while others may still use the device.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        wanted = [False]
        if "compile" in self._config.baselines and self._is_unknown("compile_ratio"):
            wanted.append(True)
        if self._is_unknown("process_spread"):
            wanted += [False] * (_COMPARED[self._kind] - 1)
        try:
            self._ground.driver.ask(Expect(count=len(wanted)))
            sides = [start(self._ground, role="baseline") for _ in wanted]
            for side, compiled in zip(sides, wanted, strict=True):
                self._ground.driver.hold(exclusive=False, anew=True)
                self._furnish(side, compiled=compiled)
                if compiled:
                    self._compiled = self._bench.lay_out(side)
                else:
                    self._started.append(side)
            if self._kind == "cuda":
                self._ground.driver.release()
            if self._compiled is not None:
                self._compile(self._compiled)
        except CandidateFailed as verdict:
            if not self._started:
                raise ProblemError(f"the reference failed in its sandbox: {verdict.detail}") from verdict

    def close(self) -> None:
        """End the baselines' processes."""
        self._dismiss()
        if self._found is not None:
            self._found.eager.worker.close()

    def _dismiss(self) -> None:
        """End those that were started ahead and not needed: a machine's cache knew more than was thought."""
        while self._started:
            self._started.pop().close()
        if self._compiled is not None:
            self._compiled.worker.close()
            self._compiled = None

    def compare_launching(self) -> None:
        """Find out how much processes differ in launching, for a candidate whose launches count."""
        found = self.measure()
        if not found.launching_compared:
            found.launching_compared = True
            count = _few(found.count, found.known.solo_ms)
            found.launched_spread = self._process_spread(found.eager, count, queued=False)

    def _measure(self) -> Baselines:
        eager = self._reference_lane()
        # What a process runs first has to be loaded, which waits for whatever is queued.
        self._bench.comparing(1, False).solo(eager, 1)
        if eager.gate is not None:
            eager.gate.expect(self._ground.operations)
        count = self._bench.sizing.settle(eager, None)
        count = self._bench.sizing.grown(eager, count)
        gate, most = eager.gate, eager.gate.most if eager.gate is not None else 0
        queued = gate is not None
        own = self.alone(eager, count, queued)
        ratio = (
            self._compile_ratio(eager, count, own, queued) if "compile" in self._config.baselines else None
        )
        spread = self._process_spread(eager, _few(count, own.median_ms), queued=queued)
        self._dismiss()
        return Baselines(
            eager, queued, BaselineFacts(own.median_ms, own.spread_ms, ratio, spread), count, gate, most
        )

    def alone(self, eager: CallBuffers, count: int, queued: bool) -> Timing:
        """The reference with nobody else around."""
        eager.forget()
        clock = self._bench.clock(count, queued)
        clock.solo(eager, _SOLO_TURNS)
        return clock.alone(eager)

    def _compile_ratio(self, eager: CallBuffers, count: int, alone: Timing, queued: bool) -> float | None:
        """Compiled over eager, measured in turns, or taken from this machine's cache."""
        known = self._known_ratio(queued, alone.median_ms)
        if known is not None:
            return known
        try:
            ratio, error = self._ratio_of(self._reference_lane(compiled=True), eager, count, queued)
        except CandidateFailed as verdict:
            self.notes.append(f"torch.compile failed: {verdict.detail[:300]}")
            return None
        self._remember(queued, compile_ratio=ratio, compile_error=error, compile_solo_ms=alone.median_ms)
        return ratio

    def _known_ratio(self, queued: bool, solo_ms: float) -> float | None:
        """Compiled over eager from this machine's cache, if that still holds."""
        known_ms, error = (self._recalled(name, queued) for name in ("compile_solo_ms", "compile_error"))
        holds = trusted(known_ms=known_ms, error=error, solo_ms=solo_ms, most=_DRIFT[self._kind])
        return self._recalled("compile_ratio", queued) if holds else None

    def _process_spread(self, eager: CallBuffers, count: int, *, queued: bool) -> float | None:
        """How much processes of the reference differ, measured in turns, or from this machine's cache."""
        known, others = self._recalled("process_spread", queued), _COMPARED[self._kind] - 1
        if known is not None or not others:
            return known
        try:
            ratios = [self._ratio_of(self._reference_lane(), eager, count, queued)[0] for _ in range(others)]
        except (CandidateFailed, ProblemError, torch.OutOfMemoryError) as error:
            self.notes.append(f"the spread between processes was not measured: {str(error)[:300]}")
            return None
        found = process_spread([1.0, *ratios])
        self._remember(queued, process_spread=found)
        return found

    def _ratio_of(
        self, lane: CallBuffers, eager: CallBuffers, count: int, queued: bool
    ) -> tuple[float, float]:
        """Another process' time over that of the baseline kept, and its relative error; the process is ended.

        Where the other cannot queue its calls, neither does.

        Raises:
            Verdict: it failed, hung, or answered otherwise than the baseline.
        """
        try:
            self._bench.comparing(count, False).solo(lane, _WARM_TURNS)
            fitting = self._bench.sizing.queueable(lane, count) if queued else count
            clock = self._bench.comparing(fitting, queued and lane.gate is not None)
            lane.forget()
            eager.forget()
            clock.duel(lane, eager)
        finally:
            lane.worker.close()
        sides = ([ran.inner_ms for ran in each.turns] for each in (lane, eager))
        ratio, interval = clock.ratio(*sides)
        return ratio, (interval.high - interval.low) / 2 / ratio

    def _is_unknown(self, name: str) -> bool:
        """Whether this machine's cache holds a number neither of queued calls nor of others."""
        return all(self._recalled(name, way) is None for way in (False, True))

    def _recalled(self, name: str, queued: bool) -> float | None:
        """A number this machine's cache holds about the problem."""
        stored = self._ground.driver.recall().get(_stored(name, queued))
        return stored if isinstance(stored, float) else None

    def _remember(self, queued: bool, **found: float) -> None:
        """Add to what this machine's cache holds about the problem."""
        every = [(name, way) for name in _REMEMBERED for way in (False, True)]
        held = {_stored(*each): self._recalled(*each) for each in every}
        kept = {name: value for name, value in held.items() if value is not None}
        new = {_stored(name, queued): value for name, value in found.items()}
        self._ground.driver.remember(kept | new)

    def _reference_lane(self, *, compiled: bool = False) -> CallBuffers:
        """A process with the reference in it: one started ahead, if there is one."""
        if compiled and self._compiled is not None:
            lane, self._compiled = self._compiled, None
            return lane
        is_ready = bool(self._started) and not compiled
        side = self._started.pop(0) if is_ready else start(self._ground, role="baseline")
        try:
            if not is_ready:
                self._furnish(side, compiled=compiled)
            lane = self._bench.lay_out(side)
            if compiled:
                self._compile(lane)
        except BaseException:
            side.close()
            raise
        return lane

    def _furnish(self, side: WorkerProcess, *, compiled: bool) -> None:
        """Let a fresh process construct the reference."""
        draw = self._pool.draws[0]
        spec = ModelSpec("Model", "m", draw.seed, draw.vary, compiled=compiled)
        load_model(self._ground, side, self._ground.reference.source, spec)

    def _compile(self, lane: CallBuffers) -> None:
        """A compiled model's first call, on inputs of the problem: zeros may be none."""
        lane.write(self._pool.bases[0].arguments.leaves)
        self._ground.device.synchronize()
        lane.run("m", timeout_s=_COMPILE_S)


def _few(count: int, call_ms: float) -> int:
    """So many calls, or as many as take long enough for comparing two trusted sides."""
    return max(1, min(count, math.ceil(_COMPARED_MS / max(call_ms, 1e-6))))


def _stored(name: str, queued: bool) -> str:
    return f"{name}_queued" if queued else name


def trusted(*, known_ms: float | None, error: float | None, solo_ms: float, most: float) -> bool:
    """Whether a ratio measured earlier still holds.

    `error` is its own, relative; the reference took `known_ms` when it was measured and takes `solo_ms` now.
    Neither may be off by more than `most`.
    """
    if known_ms is None or error is None:
        return False
    return error <= most and abs(solo_ms / known_ms - 1) <= most
