"""Builders on nodes without a device: compile candidates while they wait for a judge."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from kernelwright.agent.evaluation.cluster.cluster_records import CandidateBuilds, JudgeOrder
from kernelwright.agent.evaluation.cluster.policy import (
    BUILDS_AHEAD,
    DEADLINE_FACTOR,
    FAILED_STARTS,
    LOOK_S,
)
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, RayConnection
from kernelwright.evaluator import PackedBuild

_LOG: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Builder:
    actor: Any
    """Ray's handle."""
    answer: Any
    """Ray's reference to its first answer; None once it came."""
    under_way: int = 0


class BuilderPool:
    """Builders for the judges of one kind. A context manager; usable from any thread.

    They are a help and nothing waits for them: where none runs or all are busy, and where one is lost, the
    judge compiles the candidate.
    """

    def __init__(self, connection: RayConnection, order: JudgeOrder, count: int) -> None:
        self._connection, self._order, self._count = connection, order, count
        self._guard = threading.Lock()
        self._builders: list[_Builder] = []
        self._losses = 0
        """Builders lost in a row."""

    def __enter__(self) -> Self:
        """Ask for the builders; Ray begins them as nodes have cores for them."""
        with self._guard:
            for _ in range(self._count):
                self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._guard:
            builders, self._builders = self._builders, []
        for builder in builders:
            self._connection.end_judge(builder.actor)

    def build(
        self, source: str, architecture: str | None, check: Callable[[], None]
    ) -> tuple[PackedBuild, ...]:
        """Return a candidate's builds for an architecture such as `sm_90`; empty where the judge is to build.

        `check` is called again and again meanwhile, and may raise.
        """
        builder = self._take()
        if builder is None:
            return ()
        try:
            reference = self._connection.ask(builder.actor, "build", source, architecture)
            until = time.monotonic() + DEADLINE_FACTOR * BUILDS_AHEAD * self._order.config.limits.build_s
            while (answer := self._connection.answer(reference, LOOK_S)) is None:
                check()
                if time.monotonic() > until:
                    raise JudgeDied("it does not answer")
        except JudgeDied as died:
            self._lose(builder, str(died))
            return ()
        finally:
            with self._guard:
                builder.under_way -= 1
        self._losses = 0
        return CandidateBuilds.model_validate_json(answer).builds

    def _take(self) -> _Builder | None:
        """The builder with the least to do, of those that run."""
        with self._guard:
            running = [builder for builder in self._builders if self._is_running(builder)]
            least = min(running, key=lambda builder: builder.under_way, default=None)
            if least is None or least.under_way >= BUILDS_AHEAD:
                return None
            least.under_way += 1
            return least

    def _is_running(self, builder: _Builder) -> bool:
        if builder.answer is None:
            return True
        try:
            if self._connection.answer(builder.answer, 0.0) is None:
                return False
        except JudgeDied as died:
            threading.Thread(target=self._lose, args=(builder, str(died)), daemon=True).start()
            return False
        builder.answer = None
        return True

    def _lose(self, builder: _Builder, why: str) -> None:
        """End a builder, and ask for another unless too many were lost in a row."""
        with self._guard:
            if builder not in self._builders:
                return
            self._builders.remove(builder)
            self._losses += 1
            is_replaced = self._losses <= FAILED_STARTS
            if is_replaced:
                self._start()
        _LOG.warning("a builder is lost%s: %s", "" if is_replaced else " and not replaced", why)
        self._connection.end_judge(builder.actor)

    def _start(self) -> None:
        try:
            actor = self._connection.start_builder(self._order)
            self._builders.append(_Builder(actor, self._connection.ask(actor, "is_ready")))
        except JudgeDied as died:
            _LOG.warning("no builder begins: %s", died)
