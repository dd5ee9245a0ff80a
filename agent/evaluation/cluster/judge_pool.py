"""The judges of one kind of device: how many there are, which of them gets an evaluation, and who is drained.

A thread asks for judges as evaluations wait, admits those that belong together, checks their noise, and ends
those that nobody needs. Ray's autoscaler acts on judges that are asked for and find no device.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from kernelwright.agent.evaluation.cluster.cluster_records import (
    JudgeFacts,
    JudgeOrder,
    NoiseReading,
    node_of,
)
from kernelwright.agent.evaluation.cluster.judge_handle import JudgeHandle
from kernelwright.agent.evaluation.cluster.policy import (
    FAILED_STARTS,
    FIRST_JUDGE_S,
    IDLE_S,
    LOOK_S,
    NOBODY_S,
    NOISE_BOUND,
    NOISE_EVERY,
    NOISE_RETRY_S,
    NOISE_TRIES,
    RESTART_S,
    START_S,
    STEAL_S,
)
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, Node, RayConnection
from kernelwright.agent.evaluation.handshake import refuse_mixed, served_devices, terms_of
from kernelwright.evaluator import ConfigError, EvaluatorError, MachineError, sha256_text

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """The judges that are wanted."""

    judge: JudgeOrder
    most: int
    """Judges at most."""
    device: str | None = None
    """Name of the device that is meant."""
    accelerator: str = ""
    """Ray's name of it, where the cluster has several."""
    checks_noise: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    """One evaluation that waits for a judge."""

    topic: str
    """Evaluations of one topic go to one judge while it has room: a problem that is open is reused."""
    is_alone: bool
    """True if nothing else may be under way at its judge."""
    avoid: Collection[str]
    """Nodes to take only if there is no other."""
    waits: Callable[[int], None]
    """Called again and again with the number that waits before it; may raise."""


class JudgePool:
    """Judges of one kind. A context manager; usable from any thread."""

    def __init__(self, connection: RayConnection, order: PoolOrder) -> None:
        self.terms = ""
        """The terms that all judges share; empty until one has answered."""
        self.closing = threading.Event()
        self._connection = connection
        self._order = order
        self._changed = threading.Condition()
        self._judges: list[JudgeHandle] = []
        self._starting: list[JudgeHandle] = []
        self._refused: dict[str, str] = {}
        """Nodes that may not evaluate, each with the reason."""
        self._waiting: list[Ask] = []
        self._failures: Counter[str] = Counter()
        """Judges that did not begin, by the node they were meant for."""
        self._failed_starts = 0
        self._next_start_at = 0.0
        self._first: JudgeFacts | None = None
        self._fatal: EvaluatorError | None = None
        self._watch = threading.Thread(target=self._look_after, name="cluster", daemon=True)

    def __enter__(self) -> Self:
        """Ask for judges, and wait for the first.

        Raises ConfigError if no node may evaluate, with the reasons, and MachineError if none answers.
        """
        self._watch.start()
        until = time.monotonic() + FIRST_JUDGE_S
        try:
            with self._changed:
                while not self._judges and self._fatal is None and time.monotonic() < until:
                    self._changed.wait(LOOK_S)
                if self._fatal is None and not self._judges:
                    self._fatal = MachineError(
                        "; ".join(self._refused.values()) or f"no judge answers; asked for {self._order.most}"
                    )
                if self._fatal is not None:
                    raise self._fatal
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        with self._changed:
            self._changed.notify_all()
        self._watch.join()
        for judge in [*self._judges, *self._starting]:
            self._connection.end_judge(judge.actor)

    @property
    def facts(self) -> JudgeFacts:
        """Those of the first judge."""
        if self._first is None:
            raise MachineError("no judge of the cluster has described itself")
        return self._first

    @property
    def at_once(self) -> int:
        """Evaluations at once of all judges that may be."""
        return self._order.most * self._each

    @property
    def _each(self) -> int:
        """Evaluations at once of a judge, or of one like the first."""
        first = self._first.at_once if self._first else 1
        return max((one.at_once for one in self._judges), default=first)

    @contextmanager
    def judge(self, ask: Ask) -> Iterator[JudgeHandle]:
        """A judge for one evaluation; raises MachineError if there is none for too long."""
        judge = self._take(ask)
        try:
            yield judge
        finally:
            with self._changed:
                judge.under_way -= 1
                judge.noise.evaluated += 1
                judge.idle_since = time.monotonic()
                if judge.reserved_for is ask:
                    judge.reserved_for = None
                self._changed.notify_all()

    def lose(self, judge: JudgeHandle, why: str) -> None:
        """Use a judge no more, and end whatever is left of it."""
        with self._changed:
            is_news, judge.is_lost = not judge.is_lost, True
        if is_news:
            _LOG.warning("%s is lost: %s; what it evaluated goes to others", judge.place, why)
            self._connection.end_judge(judge.actor)

    def _take(self, ask: Ask) -> JudgeHandle:
        begun = nobody_since = time.monotonic()
        chosen: JudgeHandle | None = None
        with self._changed:
            self._waiting.append(ask)
        try:
            while True:
                with self._changed:
                    if self._fatal is not None:
                        raise self._fatal
                    chosen = self._choose(ask, time.monotonic() - begun)
                    if chosen is not None:
                        chosen.under_way += 1
                        return chosen
                    if any(not one.is_lost and one.noise.is_known for one in self._judges):
                        nobody_since = time.monotonic()
                    ahead = self._waiting.index(ask)
                    self._changed.wait(LOOK_S / 2)
                if time.monotonic() - nobody_since > NOBODY_S:
                    raise MachineError("no judge of the cluster may evaluate: all are lost or too noisy")
                ask.waits(ahead)
        finally:
            with self._changed:
                self._waiting.remove(ask)
                for one in self._judges:
                    if one.reserved_for is ask and one is not chosen:
                        one.reserved_for = None
                self._changed.notify_all()

    def _choose(self, ask: Ask, waited_s: float) -> JudgeHandle | None:
        ready = [one for one in self._judges if not one.is_lost and one.noise.is_known and one.facts]
        ready = [one for one in ready if one.facts and one.facts.node not in ask.avoid] or ready
        ready = [one for one in ready if one.reserved_for in (None, ask)]
        if not ready:
            return None
        if ask.is_alone:
            emptiest = min(ready, key=lambda one: (one.reserved_for is not ask, one.under_way))
            emptiest.reserved_for = ask
            return emptiest if emptiest.under_way == 0 else None
        ranked = sorted(ready, key=lambda one: sha256_text(f"{one.facts and one.facts.node}\0{ask.topic}"))
        free = [one for one in ranked if one.under_way < one.at_once]
        if not free or (free[0] is not ranked[0] and waited_s < STEAL_S):
            return None
        return free[0]

    def _look_after(self) -> None:
        while not self.closing.is_set():
            try:
                self._admit_started()
                self._check_noise()
                self._scale()
            except Exception as error:  # noqa: BLE001 - the thread's end would leave callers waiting for ever
                self._give_up(MachineError(f"the cluster does not answer: {error}"))
                return
            self.closing.wait(LOOK_S / 5 if self._starting else LOOK_S)

    def _admit_started(self) -> None:
        for judge in list(self._starting):
            try:
                answer = self._connection.answer(judge.answer, 0.0)
            except JudgeDied as died:
                self._drop_start(judge)
                self._failed_starts += 1
                pause_s = min(RESTART_S, LOOK_S * 2**self._failed_starts)
                self._next_start_at = time.monotonic() + pause_s
                _LOG.warning("a judge ended while it began: %s", died)
                tries = max(FAILED_STARTS, len(self._able()))
                if self._failed_starts >= tries and not self._judges:
                    self._give_up(MachineError(f"judges cannot begin on the cluster: {died}"))
                continue
            if answer is None:
                if judge.planned and time.monotonic() - judge.asked_at > START_S:
                    self._drop_start(judge)  # its node may be gone, or busy with other work for long
                continue
            self._starting.remove(judge)
            self._failed_starts = 0
            try:
                judge.facts = JudgeFacts.read(answer)
                self._refuse_unfit(judge.facts)
            except ConfigError as error:
                self._leave_out(judge, node_of(answer), error)
                continue
            self._first = self._first or judge.facts
            judge.noise.is_known = not self._order.checks_noise
            with self._changed:
                self._judges.append(judge)
                self._changed.notify_all()

    def _drop_start(self, judge: JudgeHandle) -> None:
        self._starting.remove(judge)
        self._failures[judge.planned] += 1
        self._connection.end_judge(judge.actor)

    def _able(self) -> list[Node]:
        """Nodes with a device of the kind and type that is meant."""
        kind, accelerator = self._order.judge.kind, self._order.accelerator
        return [node for node in self._connection.nodes() if node.fits(kind, accelerator)]

    def _refuse_unfit(self, facts: JudgeFacts) -> None:
        """Refuse a judge whose scores would not compare with those of the others."""
        if facts.trouble:
            raise ConfigError(f"{facts.place} cannot evaluate: {'; '.join(facts.trouble)}")
        kind = self._order.judge.kind
        device = served_devices(facts.place, facts, self._order.device).get(kind)
        if device is None:
            raise ConfigError(f"{facts.place} has no {self._order.device or kind} device")
        terms = terms_of(facts, device)
        if self.terms:
            refuse_mixed({"the others": self.terms, facts.place: terms})
        self.terms = terms

    def _leave_out(self, judge: JudgeHandle, node: str, error: ConfigError) -> None:
        _LOG.warning("left out: %s", error)
        self._refused[node] = str(error)
        self._connection.end_judge(judge.actor)
        if not self._judges and all(node.id in self._refused for node in self._able()):
            self._give_up(ConfigError("; ".join(self._refused.values())))

    def _give_up(self, error: EvaluatorError) -> None:
        with self._changed:
            self._fatal = error
            self._changed.notify_all()

    def _check_noise(self) -> None:
        if not self._order.checks_noise:
            return
        now = time.monotonic()
        for judge in [one for one in self._judges if not one.is_lost]:
            record = judge.noise
            try:
                if record.answer is None:
                    is_due = not record.is_known or record.evaluated >= NOISE_EVERY
                    if is_due and now >= record.next_at:
                        record.answer = self._connection.ask(judge.actor, "noise")
                    continue
                answer = self._connection.answer(record.answer, 0.0)
            except JudgeDied as died:
                self.lose(judge, str(died))
                continue
            if answer is not None:
                record.answer, record.evaluated = None, 0
                self._judge_noise(judge, NoiseReading.model_validate_json(answer))

    def _judge_noise(self, judge: JudgeHandle, reading: NoiseReading) -> None:
        record, bound = judge.noise, NOISE_BOUND[self._order.judge.kind]
        with self._changed:
            if reading.ratio is not None and reading.ratio <= bound:
                record.is_known, record.failures = True, 0
            else:
                record.failures += 1
            if record.failures >= NOISE_TRIES:
                record.is_known, record.next_at = False, time.monotonic() + NOISE_RETRY_S
                found = reading.why or f"a program takes {reading.ratio:.2f} times as long as itself"
                _LOG.warning("%s is too noisy to score on (%s); it is checked again", judge.place, found)
            elif record.failures:
                record.evaluated = NOISE_EVERY  # once more
            self._changed.notify_all()

    def _scale(self) -> None:
        with self._changed:
            self._judges = [one for one in self._judges if not one.is_lost]
            demand = len(self._waiting) + sum(one.under_way for one in self._judges)
            wanted = min(self._order.most, max(1, math.ceil(demand / self._each)))
            now = time.monotonic()
            spare = len(self._judges) - wanted
            idle = [
                one
                for one in self._judges
                if one.under_way == 0 and one.reserved_for is None and now - one.idle_since > IDLE_S
            ][: max(0, spare)]
            self._judges = [one for one in self._judges if one not in idle]
        for judge in idle:
            self._connection.end_judge(judge.actor)
        while len(self._judges) + len(self._starting) < wanted and self._start_one():
            pass

    def _start_one(self) -> bool:
        """Ask for one more judge; False where no node may have it."""
        if time.monotonic() < self._next_start_at:
            return False
        order, avoid, on = self._order.judge, set(self._refused), ""
        if order.kind == "cpu":
            # One on each node: two would time on the same cores.
            taken = {one.facts.node if one.facts else one.planned for one in (*self._judges, *self._starting)}
            nodes = self._connection.nodes()
            free = [node.id for node in nodes if node.fits("cpu") and node.id not in taken | avoid]
            if not free and "" in taken:
                return False  # one is asked for already on a node that does not exist yet
            if free:
                on, avoid = min(free, key=lambda node: self._failures[node]), set()
            else:
                avoid |= {node.id for node in nodes}
        actor: Any = self._connection.start_judge(
            order, avoid=avoid, on=on, accelerator=self._order.accelerator
        )
        answer = self._connection.ask(actor, "facts")
        self._starting.append(JudgeHandle(self._connection, actor, planned=on, answer=answer))
        return True
