"""The decision: one candidate through load, verify, time, on one screen."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

import torch

from kernelwright.evaluator.analysis.plausibility import contradiction
from kernelwright.evaluator.ipc.driver_requests import EnterStage
from kernelwright.evaluator.referee.checks.kernel_profile import attribution
from kernelwright.evaluator.referee.checks.ncu_counters import CounterCollector
from kernelwright.evaluator.referee.checks.roofline import Roofline
from kernelwright.evaluator.referee.checks.sanitization import Sanitizer
from kernelwright.evaluator.referee.correctness.other_shapes import OtherShapes
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.correctness.verification import Verifier
from kernelwright.evaluator.referee.timing.second_process import SecondProcess
from kernelwright.evaluator.referee.timing.timer import CandidateTimer
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.setup import ProblemContext, load, start
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import DeviceFull
from kernelwright.evaluator.schema.evaluation import (
    Attribution,
    Counters,
    Measurement,
    Plausibility,
    Sanitization,
    Stage,
    Status,
    Verification,
)

_DOUBTED = (Status.WRONG_VALUES, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.RUNTIME_ERROR)
"""What a fault of the lean headers would look like."""
_ROOMY = 0.5
"""Share of a device's memory: where so much is free without a candidate, it had enough."""
_HOARDED = "it left no room on the device for the inputs of timed calls"
_NO_ANSWER = (Status.COMPILE_ERROR, Status.TIMED_OUT)


class CandidateEvaluator:
    """Judges candidates of one problem."""

    def __init__(
        self,
        ground: ProblemContext,
        pool: TrialPool,
        config: EvaluationConfig,
        secret: random.Random,
        *,
        insists: bool,
    ) -> None:
        """`insists` on room for timed calls, where others may make some.

        Raises:
            DeviceFull: there is none.
        """
        self._ground = ground
        self._pool = pool
        self._config = config
        self._secret = secret
        self._has_judged = False
        self._alone = True
        self._assessor = Roofline(ground, pool)
        if config.measure:
            self._assessor.count()
            ground.device.trim()
        self._timer = CandidateTimer(ground, pool, config, secret, insists=insists)
        judged = config.shapes or "full size"
        self._sanitizer = Sanitizer(ground, pool, name=judged, limit_s=config.limits.sanitize_s)
        self._counting = CounterCollector(ground, pool)
        self._other_sizes = OtherShapes(ground, pool, name=judged, call_s=config.limits.call_s)

    def judge(self, source: str, *, compile_s: float, alone: bool) -> dict[str, Any]:
        """The answer's fields, as JSON: status, detail, stage and everything measured.

        `compile_s` is what a model's first call may take on top, because it compiles kernels. `alone`: others
        have made room on the device.

        Raises:
            DeviceFull: it ran out of device memory, and others may be why.
        """
        self._alone = alone
        outcome = self._judge(source, compile_s=compile_s)
        if outcome.is_doubtful:
            outcome = self._judge_again(outcome, source, compile_s=compile_s)
        return outcome.fields() | {"notes": [*outcome.notes, *self._timer.notes, *self._pool.notes()]}

    def _judge_again(self, first: _Outcome, source: str, *, compile_s: float) -> _Outcome:
        """The same with torch's own headers, which decide, unless they lead to no answer at all."""
        second = self._judge(source, compile_s=compile_s, real_headers=True)
        decides = second.status not in _NO_ANSWER
        told = f"{first.status} with lean headers, {second.status} with torch's own"
        outcome = second if decides else first
        outcome.notes.append(f"{told}, which {'count' if decides else 'gave no answer'}")
        return outcome

    def _judge(self, source: str, *, compile_s: float, real_headers: bool = False) -> _Outcome:
        outcome = _Outcome()
        side: WorkerProcess | None = None
        try:
            self._announce(outcome, Stage.LOAD)
            if self._config.measure and self._ground.device.torch_device.type == "cuda":
                # Freezing would not stop what a contestant has queued on a GPU.
                self._know_baselines()
                self._ground.driver.release()
            side = start(self._ground, role="candidate", real_headers=real_headers, compile_s=compile_s)
            side.limit(self._config.limits.total_s)
            side.extend(self._hold_device(exclusive=False))
            load(self._ground, side, source, class_name="ModelNew")
            self._announce(outcome, Stage.VERIFY)
            self._verify(side, outcome)
            if self._config.measure:
                self._announce(outcome, Stage.TIME)
                lane = self._timer.lay_out(side)
                side.freeze()
                asked = time.monotonic()
                self._know_baselines()
                self._hold_device(exclusive=True)
                side.extend(time.monotonic() - asked)
                side.thaw()
                outcome.measurement = self._time(side, lane, source, outcome)
                outcome.plausibility = self._assessor.assess(outcome.measurement.candidate.median_ms)
                self._announce(outcome, Stage.ATTRIBUTE)
                self._make_way(side)
                outcome.attribution = attribution(self._ground, side, source)
            self._try_other_sizes(side, outcome)
            self._count(side, source, outcome)
            self._settle(side, outcome)
            self._sanitize(side, source, outcome)
            self._announce(outcome, Stage.DECIDE)
            self._believe(outcome)
        except CandidateFailed as verdict:
            if verdict.status is Status.OUT_OF_MEMORY:
                self._insist_on_room(side, verdict.detail)
            outcome.is_doubtful = verdict.status in _DOUBTED and side is not None and side.builds.doubtful
            final = verdict if outcome.is_doubtful else self._explained(verdict, side, source, outcome)
            outcome.status, outcome.detail, outcome.facts = final.status, final.detail, final.facts
        except torch.OutOfMemoryError as error:
            self._insist_on_room(side, str(error))
            outcome.status, outcome.detail = Status.OUT_OF_MEMORY, _HOARDED
        finally:
            if side is not None:
                side.close()
            self._ground.driver.release()
        return outcome

    def _insist_on_room(self, side: WorkerProcess | None, why: str) -> None:
        """Blame a candidate for a lack of device memory only where nobody else was there; ends it.

        Beside others that cannot be told: who fills a device fails, and gives back, when those it starved do.

        Raises:
            DeviceFull: others hold most of the device, or may have.
        """
        device = self._ground.device
        if device.torch_device.type == "cpu":
            return
        device.trim()
        if side is not None:
            side.close()
        if not self._alone or device.free_bytes() < _ROOMY * device.total_bytes():
            raise DeviceFull(f"other processes hold most of the device's memory: {why[:300]}")

    def sanitize(self, source: str) -> Sanitization:
        """What the sanitizers say of a candidate that passed before."""
        try:
            return self._sanitizer.sanitize(source)
        finally:
            self._ground.driver.release()

    def close(self) -> None:
        """End the baseline process."""
        self._timer.close()

    def _know_baselines(self) -> None:
        """Once for a problem: what its candidates are compared with. What is timed has the device alone."""
        if self._timer.baselines.known:
            return
        self._timer.baselines.start()
        self._hold_device(exclusive=True)
        self._timer.baselines.measure()
        self._assessor.measure()

    def _time(self, side: WorkerProcess, lane: CallBuffers, source: str, outcome: _Outcome) -> Measurement:
        weights = outcome.verification.weights if outcome.verification is not None else "none"
        again = SecondProcess(
            self._ground,
            side,
            source,
            self._pool.draws[0],
            from_state=weights == "state_dict",
            total_s=self._config.limits.total_s,
        )
        with contextlib.closing(again):
            return self._timer.time(lane, lambda: self._timer.lay_out(again.side()))

    def _verify(self, side: WorkerProcess, outcome: _Outcome) -> None:
        if self._has_judged:
            self._pool.rotate()
        self._has_judged = True
        verifier = Verifier(
            self._ground, side, self._pool, secret=self._secret, call_s=self._config.limits.call_s
        )
        if verifier.mutation_allowed:
            outcome.notes.append(
                "the reference writes to its inputs: whether the candidate does is not compared"
            )
        try:
            verifier.verify(self._config.trials)
        except CandidateFailed as verdict:
            outcome.verification = verifier.record(verdict.facts.get("mismatch"))
            raise
        outcome.verification = verifier.record()

    def _try_other_sizes(self, side: WorkerProcess, outcome: _Outcome) -> None:
        found = self._other_sizes.try_on(side)
        if found and outcome.verification is not None:
            specialized = any(status is not Status.PASSED for status in found.values())
            outcome.verification = outcome.verification.model_copy(
                update={"other_sizes": found, "shape_specialized": specialized}
            )

    def _count(self, side: WorkerProcess, source: str, outcome: _Outcome) -> None:
        if self._config.counters and self._ground.device.torch_device.type == "cuda":
            side.close()
            outcome.counters = self._counting.count(source, compile_s=side.compile_s)

    def _settle(self, side: WorkerProcess, outcome: _Outcome) -> None:
        """Look at the baseline again without the candidate, where that may tell more."""
        if outcome.measurement is None or not self._timer.unsettled(outcome.measurement):
            return
        side.close()
        self._hold_device(exclusive=True)
        outcome.measurement = self._timer.settled(outcome.measurement)
        self._hold_device(exclusive=False)

    def _sanitize(self, side: WorkerProcess, source: str, outcome: _Outcome) -> None:
        outcome.sanitization = self._sanitizer.postpone(self._config.sanitize, source, side.builds.count)
        if outcome.sanitization is not None:
            return
        self._announce(outcome, Stage.SANITIZE)
        side.close()
        call_ms = outcome.measurement.candidate.median_ms if outcome.measurement else None
        found = self._sanitizer.sanitize(source, builds=side.builds.count, call_ms=call_ms)
        outcome.sanitization = found
        if found.convicts is not None:
            raise CandidateFailed(found.convicts, found.reason)

    def _explained(
        self, verdict: CandidateFailed, side: WorkerProcess | None, source: str, outcome: _Outcome
    ) -> CandidateFailed:
        """Wrong answers that change from call to call are often a race, which the tools can name."""
        if side is None or not verdict.facts.get("unsteady"):
            return verdict
        if self._sanitizer.postpone(self._config.sanitize, source, side.builds.count) is not None:
            return verdict
        side.close()
        found = self._sanitizer.sanitize(source, builds=side.builds.count)
        outcome.sanitization = found
        if found.convicts is None:
            return verdict
        self._announce(outcome, Stage.SANITIZE)
        return CandidateFailed(found.convicts, f"{found.reason}; {verdict.detail}", **verdict.facts)

    def _believe(self, outcome: _Outcome) -> None:
        """Refuse a time that the hardware does not allow."""
        if outcome.measurement is None or outcome.plausibility is None:
            return
        why = contradiction(outcome.plausibility, outcome.measurement.candidate.median_ms)
        if why:
            raise CandidateFailed(Status.IMPLAUSIBLE, why)

    def _announce(self, outcome: _Outcome, stage: Stage) -> None:
        outcome.stage = stage
        self._ground.driver.ask(EnterStage(stage=stage.value))

    def _make_way(self, side: WorkerProcess) -> None:
        """After timing, let others time who wait for that, and then go on beside others.

        Queueing for the device once more costs nothing: all that is left to do can be done beside another
        evaluation's rest, but not beside its timing. A GPU stays shared without a gap, because freezing would
        not stop what the candidate has queued there.
        """
        if self._ground.device.torch_device.type == "cpu":
            side.freeze()
            self._ground.driver.release()
        side.extend(self._hold_device(exclusive=False))

    def _hold_device(self, *, exclusive: bool) -> float:
        """Wait for the device; returns the seconds waited, which are nobody's fault."""
        return self._ground.driver.hold(exclusive=exclusive)


class _Outcome:
    """What has been found out so far."""

    def __init__(self) -> None:
        self.status = Status.PASSED
        self.stage = Stage.LOAD
        self.detail = ""
        self.is_doubtful = False
        """Whether it may be the fault of the headers the candidate was built with."""
        self.notes: list[str] = []
        self.facts: dict[str, Any] = {}
        self.verification: Verification | None = None
        self.measurement: Measurement | None = None
        self.sanitization: Sanitization | None = None
        self.plausibility: Plausibility | None = None
        self.attribution: Attribution | None = None
        self.counters: Counters | None = None

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        records = {
            "verification": self.verification,
            "measurement": self.measurement,
            "sanitization": self.sanitization,
            "plausibility": self.plausibility,
            "attribution": self.attribution,
            "counters": self.counters,
        }
        return {
            "status": self.status.value,
            "stage": self.stage.value,
            "detail": self.detail,
            "traceback": str(self.facts.get("traceback", "")),
            **{
                name: record.model_dump(mode="json") if record is not None else None
                for name, record in records.items()
            },
        }
