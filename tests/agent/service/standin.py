"""A service around a trusted stand-in for the evaluator, which judges by what a candidate says of itself.

A candidate is `standin('STATUS', seconds, number)`. Run as a program it serves until it is killed, and writes
down what it begins and ends.
"""

from __future__ import annotations

import ast
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.agent.evaluation.evaluation_site import Evaluate, EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.service_client import ServiceClient
from kernelwright.agent.evaluation.service_facts import facts_of
from kernelwright.agent.service.evaluation_queue import EvaluationQueue
from kernelwright.agent.service.http_app import Front, create_app
from kernelwright.agent.service.middleware import Tokens
from kernelwright.agent.service.server import Service
from kernelwright.agent.service.service_setup import listen
from kernelwright.agent.service.service_workers import ServiceWorkers, kinds
from kernelwright.agent.service.store import Store
from kernelwright.agent.service.submission import ProblemRegistry
from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    Candidate,
    Evaluation,
    EvaluationConfig,
    MachineError,
    Problem,
    Stage,
    Status,
    problem_from_source,
    source_sha,
)

PROBLEM = problem_from_source(
    "N = 4\nSHAPES = {'small': {'N': 2}}\nclass Model: ...\ndef get_inputs(): return []\n", "level1/01_add"
)

TOKEN = "the-right-token-" * 2
"""Of the service in a process of its own."""


def source(status: str = "PASSED", seconds: float = 0.0, number: int = 0) -> str:
    """A candidate that takes this long to earn this status, or `MACHINE` or `CRASH`."""
    return f"standin({status!r}, {seconds}, {number})"


@dataclass
class StandIn:
    """Judges; remembers what it began and ended."""

    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    journal: Path | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    """A candidate with the status `GATE` waits for it, then passes."""

    def __call__(self, asked: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        text, stop = asked.candidate.source, hooks.stop or CancelToken()
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        status, seconds, _ = (ast.literal_eval(argument) for argument in call.args)
        self._note("begun", self.begun, text)
        hooks.on_stage(Stage.VERIFY)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or (status == "GATE" and not self.gate.is_set()):
            if stop.is_set:
                break
            time.sleep(0.005)
        if stop.is_set:
            raise Cancelled("stopped")
        if status == "MACHINE":
            raise MachineError("no compiler here")
        if status == "CRASH":
            raise ZeroDivisionError("a bug")
        self._note("ended", self.ended, text)
        status = Status("PASSED" if status == "GATE" else status)
        return evaluation(asked.problem, asked.candidate, asked.config, status, output_tail=text)

    def _note(self, word: str, known: list[str], what: str) -> None:
        if self.journal is None:
            known.append(what)
            return
        with self.journal.open("a") as file:
            file.write(f"{word} {' '.join(what.split())}\n")


def evaluation(
    problem: Problem, candidate: Candidate, config: EvaluationConfig, status: Status, **changes: Any
) -> Evaluation:
    """The least a verdict holds."""
    return Evaluation(
        status=status,
        stage=Stage.DECIDE,
        problem=problem.id,
        problem_sha=problem.sha,
        candidate_sha=candidate.sha,
        backend=candidate.backend,
        config=config,
        **{"evaluator_sha": source_sha(), **changes},
    )


@dataclass
class Running:
    """A service that answers in a thread of this process."""

    folder: Path
    judge: Evaluate
    token: str = ""
    other_token: str = ""
    devices: tuple[str, ...] = ("cpu",)
    places: int = 1000
    front: dict[str, Any] = field(default_factory=dict)
    allows_sources: bool = True
    wanted_port: int = 0
    operator: EvaluationConfig = field(default_factory=EvaluationConfig)
    facts: dict[str, Any] = field(default_factory=dict)
    """What it says of itself that is not so."""

    def __enter__(self) -> Running:
        self.store = Store(self.folder)
        of_kind = kinds(self.devices)
        self.desk = EvaluationQueue(self.store, evaluator="test", workers=of_kind, places=self.places)
        workers = ServiceWorkers(self.desk, self.judge, self.devices)
        catalogue = ProblemRegistry(
            [PROBLEM], operator=self.operator, kinds=of_kind, allows_sources=self.allows_sources
        )
        facts = facts_of(self.operator, self.devices).model_copy(
            update={"takes_sources": self.allows_sources, "problems": {PROBLEM.id: PROBLEM.sha}}
        )
        front = Front(
            facts=facts.model_copy(update=self.facts),
            tokens=Tokens([token for token in (self.token, self.other_token) if token]),
            **self.front,
        )
        app = create_app(self.desk, workers, catalogue, front)
        listener = listen("127.0.0.1", self.wanted_port)
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.service = Service(app, self.desk, workers, drain_s=10, connections=1024, head_s=2)
        self._thread = threading.Thread(target=self.service.answer, args=(listener,))
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.service.end()
        self._thread.join(60)
        self.store.close()
        assert not self._thread.is_alive()

    def client(self, **changes: Any) -> ServiceClient:
        return ServiceClient(self.url, self.token or None, **changes)


def main(state: str, journal: str, workers: str, port: str) -> None:
    """Serve until killed; the first line of output is the address."""
    judge = StandIn(journal=Path(journal))
    devices = ("cpu",) * int(workers)
    with Running(Path(state), judge, TOKEN, devices=devices, wanted_port=int(port)) as running:
        print(running.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
