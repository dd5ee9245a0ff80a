"""Timing a verified candidate: the baselines of a problem, made once, and the duel against them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from evaluator.config import EvaluationConfig
from evaluator.errors import ProblemError
from evaluator.evaluation import Measurement
from evaluator.referee.clock import Clock, Lane, Schedule, batch_size, measurement
from evaluator.referee.errorscale import limit
from evaluator.referee.lanes import Construction, Ground, call_bytes, construct, lay_out, load, start
from evaluator.referee.ring import Ring
from evaluator.referee.sides import Side, Verdict
from evaluator.referee.trials import TrialPool

_BATCH_MS = {"cpu": 5.0, "cuda": 50.0}
_MOST_CALLS = 4096
_MEMORY_SHARE = 0.05
_MEMORY_BYTES = {"cpu": 192 << 20, "cuda": 4 << 30}
_SOLO_TURNS = 3
_COMPILE_TURNS = 6
_COMPILE_S = 300.0
_REFERENCE_S = 120.0


@dataclass(slots=True)
class Baselines:
    """What is known of a problem's reference on this device."""

    eager: Lane
    eager_ms: float
    """Solo, before any contestant ran."""
    compile_ratio: float | None
    """Compiled time over eager time; None when not wanted or when it cannot be compiled."""


class Timer:
    """Times the candidates of one problem; owns the baseline process."""

    def __init__(
        self, ground: Ground, pool: TrialPool, config: EvaluationConfig, secret: random.Random
    ) -> None:
        self._ground = ground
        self._pool = pool
        self._config = config
        self._secret = secret
        self._kind = ground.device.torch_device.type
        self._ring = Ring(
            pool.bases,
            pool.fresh,
            secret=secret,
            limit=limit(config.math.value, zero_mean=False, terms=pool.terms),
        )
        self._base = pool.bases[0]
        self._most = self._most_calls()
        self._baselines: Baselines | None = None
        self.notes: list[str] = []

    def baselines(self) -> Baselines:
        """The reference alone: made on first use, kept for every candidate.

        Raises:
            ProblemError: the reference does not run in its sandbox.
        """
        if self._baselines is None:
            try:
                self._baselines = self._measure_baselines()
            except Verdict as verdict:
                raise ProblemError(f"the reference failed in its sandbox: {verdict.detail}") from verdict
        return self._baselines

    def time(self, side: Side) -> Measurement:
        """Duel a verified candidate, model `m` of `side`.

        Raises:
            Verdict: a timed output was wrong, the clock was forged, or the candidate failed.
        """
        known = self.baselines()
        lane = self._lane(side)
        count = self._settle_count(lane, known.eager_ms)
        lane.forget()
        known.eager.forget()
        clock = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
        clock.duel(lane, known.eager)
        clock.check_claims(lane, known.eager)
        return measurement(
            clock,
            lane,
            known.eager,
            count=count,
            compile_ratio=known.compile_ratio,
            solo_ms=known.eager_ms,
        )

    def close(self) -> None:
        """End the baseline process."""
        if self._baselines is not None:
            self._baselines.eager.side.close()

    def _measure_baselines(self) -> Baselines:
        eager = self._lane(self._reference_side(compiled=False))
        count = self._settle_count(eager, None)
        eager.forget()
        clock = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
        clock.solo(eager, _SOLO_TURNS)
        eager_ms = clock.call_ms(eager)
        ratio = self._compile_ratio(eager, count) if "compile" in self._config.baselines else None
        return Baselines(eager, eager_ms, ratio)

    def _settle_count(self, lane: Lane, reference_ms: float | None) -> int:
        """Batch size from what a call takes: first alone, then in a small batch, which pipelines."""
        count = 1
        for _ in range(2):
            lane.forget()
            probe = Clock(self._ground.device, self._ring, self._schedule(count), self._secret)
            probe.solo(lane, 2)
            call_ms = max(min(ran.inner_ms for ran in lane.turns) / count, 1e-3)
            count = batch_size(
                call_ms, reference_ms or call_ms, batch_ms=_BATCH_MS[self._kind], most=self._most
            )
        return count

    def _compile_ratio(self, eager: Lane, count: int) -> float | None:
        """Compiled over eager, measured in turns, or taken from this machine's cache."""
        stored = self._ground.driver.call("recall").get("compile_ratio")
        if isinstance(stored, float):
            return stored
        try:
            side = self._reference_side(compiled=True)
        except Verdict as verdict:
            self.notes.append(f"torch.compile failed: {verdict.detail[:300]}")
            return None
        try:
            lane = self._lane(side)
            side.run("time", model="m", first=0, count=1, timeout_s=_COMPILE_S)
            schedule = Schedule(
                count=count, target_ms=0.0, max_turns=_COMPILE_TURNS, call_timeout_s=_REFERENCE_S
            )
            eager.forget()
            clock = Clock(self._ground.device, self._ring, schedule, self._secret)
            clock.duel(lane, eager)
            ratio = clock.call_ms(lane) / clock.call_ms(eager)
        except Verdict as verdict:
            self.notes.append(f"torch.compile failed: {verdict.detail[:300]}")
            return None
        finally:
            side.close()
        self._ground.driver.call("remember", compile_ratio=ratio)
        return ratio

    def _reference_side(self, *, compiled: bool) -> Side:
        side = start(self._ground, role="baseline")
        load(self._ground, side, self._ground.reference.source, class_name="Model")
        draw = self._pool.draws[0]
        wanted = Construction("Model", "m", draw.seed, draw.vary, compiled=compiled)
        construct(self._ground, side, wanted)
        return side

    def _lane(self, side: Side) -> Lane:
        return lay_out(side, "time", self._base.arguments, self._base.expected.output, self._most)

    def _schedule(self, count: int) -> Schedule:
        slowest = self._baselines.eager_ms if self._baselines else 0.0
        return Schedule(
            count=count,
            target_ms=self._config.target_ms,
            max_turns=self._config.max_turns,
            call_timeout_s=self._config.limits.call_s + 10 * slowest / 1e3,
        )

    def _most_calls(self) -> int:
        size = call_bytes(self._base.arguments, self._base.expected.output)
        free = int(self._ground.device.free_bytes() * _MEMORY_SHARE)
        budget = max(min(_MEMORY_BYTES[self._kind], free), 2 * size)
        return self._ring.most_calls(max(1, min(_MOST_CALLS, budget // size)))
