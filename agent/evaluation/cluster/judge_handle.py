"""One judge on a node as this process sees it: its facts, its health, and what it evaluates for us."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernelwright.agent.evaluation.cluster.cluster_records import ClusterAnswer, ClusterRequest, JudgeFacts
from kernelwright.agent.evaluation.cluster.policy import DEADLINE_FACTOR, DEAF_S, HEALTH_S, LOOK_S
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, RayConnection
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, ignore
from kernelwright.evaluator import Evaluation, Stage


@dataclass(slots=True)
class NoiseRecord:
    """The checks of a judge's noise."""

    answer: Any = None
    """Ray's reference to a check under way."""
    is_known: bool = False
    """True once the last check passed."""
    failures: int = 0
    """Checks in a row that did not pass."""
    evaluated: int = 0
    """Evaluations since the last check."""
    next_at: float = 0.0
    """Time before which no check begins."""


@dataclass(eq=False)
class JudgeHandle:
    """A judge; its methods raise JudgeDied if it is gone or hangs. The pool owns `under_way` and below."""

    connection: RayConnection
    actor: Any
    """Ray's handle."""
    planned: str = ""
    """Id of the node that it was asked for on; empty where Ray chooses."""
    answer: Any = None
    """Ray's reference to its facts."""
    facts: JudgeFacts | None = None
    """None until it has described itself."""
    asked_at: float = field(default_factory=time.monotonic)
    under_way: int = 0
    reserved_for: object = None
    """The evaluation that is to be alone here."""
    idle_since: float = field(default_factory=time.monotonic)
    is_lost: bool = False
    noise: NoiseRecord = field(default_factory=NoiseRecord)

    @property
    def place(self) -> str:
        return self.facts.place if self.facts else "a node that has not answered yet"

    @property
    def at_once(self) -> int:
        """Evaluations at once."""
        return self.facts.at_once if self.facts else 1

    def evaluate(
        self, request: ClusterRequest, hooks: EvaluationHooks, check: Callable[[], None]
    ) -> Evaluation:
        """Evaluate one candidate; `check` is called again and again meanwhile, and may raise.

        Raises:
            JudgeDied: nothing is known of the candidate.
            EvaluatorError: as an evaluator on this machine raises.
        """
        ticket = uuid.uuid4().hex
        watch = _StageWatch(self, ticket, hooks)
        reference = self.connection.ask(self.actor, "evaluate", ticket, request.model_dump_json().encode())

        def look() -> None:
            check()
            watch.look()

        try:
            answer = self._await(reference, DEADLINE_FACTOR * request.config.limits.total_s, look)
        except JudgeDied:
            raise
        except BaseException:
            with suppress(JudgeDied):
                self.connection.ask(self.actor, "stop", ticket)
            raise
        return ClusterAnswer.model_validate_json(answer).result(self.place)

    def refuse_dead(self, check: Callable[[], None]) -> None:
        """Return once it answers, so that an end that comes later is of what it evaluates then."""
        try:
            self._await(self.connection.ask(self.actor, "stage", ""), DEAF_S, check)
        except JudgeDied as died:
            died.was_before = True
            raise

    def build_plainly(self, evaluation: Evaluation, check: Callable[[], None]) -> bytes | str:
        """Rebuild a kernel there with torch's own headers; the JSON of a `FullHeaderBuild`."""
        reference = self.connection.ask(self.actor, "build_plainly", evaluation.model_dump_json().encode())
        return self._await(reference, DEADLINE_FACTOR * evaluation.config.limits.total_s, check)

    def _await(self, reference: Any, within_s: float, look: Callable[[], None]) -> bytes | str:
        until = time.monotonic() + within_s
        while (answer := self.connection.answer(reference, LOOK_S)) is None:
            look()
            if time.monotonic() > until:
                raise JudgeDied(f"{self.place} has not answered within {within_s:.0f} s")
        return answer


@dataclass(slots=True)
class _StageWatch:
    """Tells a caller the stage of an evaluation, by which it also sees that the judge lives."""

    judge: JudgeHandle
    ticket: str
    hooks: EvaluationHooks
    _asked: float = field(default_factory=time.monotonic)
    _pending: Any = None
    """Ray's reference to the answer."""
    _told: str = ""

    def look(self) -> None:
        """Ask for the stage, and tell it where it changed; raises JudgeDied if it is deaf for too long."""
        now = time.monotonic()
        if self._pending is None:
            if now - self._asked >= (HEALTH_S if self.hooks.on_stage is ignore else LOOK_S):
                self._asked = now
                self._pending = self.judge.connection.ask(self.judge.actor, "stage", self.ticket)
            return
        stage = self.judge.connection.answer(self._pending, 0.01)
        if stage is None:
            if now - self._asked > DEAF_S:
                raise JudgeDied(f"{self.judge.place} has not answered for {DEAF_S:.0f} s")
            return
        self._pending = None
        if stage and stage != self._told:
            self._told = str(stage)
            self.hooks.on_stage(Stage(self._told))
