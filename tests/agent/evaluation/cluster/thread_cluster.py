"""A cluster of threads with the interface of `RayConnection`, whose nodes can be taken away."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.agent.evaluation.cluster.cluster_records import JudgeOrder
from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite
from kernelwright.agent.evaluation.cluster.gpu_judge import GpuJudge, NodeBuilder
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, Node
from kernelwright.evaluator import EvaluationConfig
from tests.agent.evaluation.cluster.standin_judge import StandInJudge, StandInSite

CONFIG = EvaluationConfig(measure=False)


class ProcessEnds(BaseException):
    """The end of a judge's process."""


@dataclass(eq=False)
class Actor:
    node: str
    judge: GpuJudge | NodeBuilder | None = None
    is_dead: bool = False
    preempted: bool = False
    calls: list[str] = field(default_factory=list)


class ThreadSite(StandInSite):
    def die(self) -> None:
        raise ProcessEnds


class ThreadJudge(StandInJudge):
    def open_site(self) -> Any:
        return ThreadSite()


class ThreadCluster:
    """Nodes by name; each has room for one judge."""

    def __init__(self, *names: str, judges: dict[str, type[GpuJudge]] | None = None) -> None:
        self._judges = judges or {}
        self.builder: type[NodeBuilder] = NodeBuilder
        self._names = dict.fromkeys(names)
        self._guard = threading.Lock()
        self._numbers = itertools.count(1)
        self.actors: list[Actor] = []
        self.has_quit = False

    def __enter__(self) -> ThreadCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.has_quit = True
        for actor in self.actors:
            actor.is_dead = True

    def refuse_open(self) -> None:
        """Every process may use threads of its own."""

    def nodes(self) -> list[Node]:
        return [Node(name, name, {"CPU": 1.0}) for name in self._names]

    def add(self, name: str) -> None:
        self._names[name] = None

    def kill(self, name: str, *, preempted: bool = False) -> None:
        """Take a node away."""
        self._names.pop(name)
        for actor in self.actors:
            if actor.node == name:
                actor.preempted = preempted
                actor.is_dead = True

    def alive(self) -> list[str]:
        """The nodes of judges that live."""
        return [actor.node for actor in self.actors if not actor.is_dead]

    def has_asked(self, name: str, method: str) -> bool:
        """True once a judge of a node was asked for something."""
        return any(actor.node == name and method in actor.calls for actor in self.actors)

    def start_judge(
        self, order: JudgeOrder, *, avoid: Collection[str], on: str = "", accelerator: str = ""
    ) -> Actor:
        with self._guard:
            taken = {actor.node for actor in self.actors if not actor.is_dead}
            free = [name for name in self._names if name not in taken and name not in avoid]
            actor = Actor(on if on in free else ("" if on else next(iter(free), "")))
            self.actors.append(actor)
        if actor.node:
            made = self._judges.get(actor.node, ThreadJudge)
            actor.judge = made(order.model_dump_json().encode(), actor.node, actor.node)
        return actor

    def start_builder(self, order: JudgeOrder) -> Actor:
        """Begin a builder, on a node of its own that no judge is asked for on."""
        actor = Actor("builders", self.builder(order.model_dump_json().encode()))
        self.actors.append(actor)
        return actor

    def ask(self, actor: Actor, method: str, *arguments: object) -> tuple[Actor, Future[Any]]:
        actor.calls.append(method)
        found: Future[Any] = Future()

        def call() -> None:
            try:
                found.set_result(getattr(actor.judge, method)(*arguments))
            except ProcessEnds:
                actor.is_dead = True
            except Exception as error:  # noqa: BLE001 - a seam: the caller gets it
                found.set_exception(error)

        if actor.judge is not None:
            # Of a daemon, so that one that hangs does not keep the interpreter.
            threading.Thread(target=call, daemon=True).start()
        return actor, found

    def answer(self, reference: tuple[Actor, Future[Any]], timeout_s: float) -> Any:
        actor, future = reference
        try:
            found = None if actor.is_dead else future.result(timeout_s)
        except NotYet:
            found = None
        if actor.is_dead:
            died = JudgeDied("the process ended")
            died.is_preempted = actor.preempted
            raise died
        return found

    def end_judge(self, actor: Actor) -> None:
        actor.is_dead = True
        if isinstance(actor.judge, NodeBuilder):
            actor.judge.builds.close()


def site_of(cluster: Any, folder: Path, **settings: Any) -> ClusterSite:
    return ClusterSite(cluster, ClusterSettings(cache=folder, **settings), CONFIG, ["cpp"])
