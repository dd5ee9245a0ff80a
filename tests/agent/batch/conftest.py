"""A scripted provider, a judge that reads its verdict off the candidate, and a run made of both."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.archive import RunLog
from agent.batch import Batch, ModelChoice, Plan, RunSummary, begin, resume
from agent.batch.events import Event
from agent.budgets import Budget
from agent.messages import Completion, CompletionRequest, Message, ProviderError
from agent.strategies import Exemplar, Sample
from agent.workspace import Workspace
from evaluator import Candidate, Evaluation, EvaluationConfig, Problem, Stage, Status

_spec = importlib.util.spec_from_file_location("builders", Path(__file__).parents[1] / "conftest.py")
assert _spec is not None and _spec.loader is not None
builders = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(builders)
make = builders.Make()


class ScriptedProvider:
    """Answers from a function of the request; remembers what it was asked."""

    name = "scripted"

    def __init__(
        self, script: Callable[[CompletionRequest], str | ProviderError], *, delay_s: float = 0.0
    ) -> None:
        self.requests: list[CompletionRequest] = []
        self.most_at_once = 0
        self.answered = 0
        self.is_closed = False
        self._script = script
        self._delay_s = delay_s
        self._now = 0

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(self._delay_s)
            said = self._script(request)
        finally:
            self._now -= 1
        if isinstance(said, ProviderError):
            raise said
        self.answered += 1
        return make.completion(said)

    async def close(self) -> None:
        self.is_closed = True


class PlainPrompts:
    """The least a strategy needs."""

    def opening(
        self, problem: Problem, backend: str, exemplars: Sequence[Exemplar] = ()
    ) -> tuple[Message, ...]:
        shown = "".join(f"\nsee {exemplar.evaluation.speedup}: {exemplar.code}" for exemplar in exemplars)
        return (
            Message(role="system", content=f"write {backend}"),
            Message(role="user", content=f"make {problem.id} fast{shown}"),
        )

    def feedback(self, evaluation: Evaluation, code: str | None, worse: Evaluation | None = None) -> str:
        more = f"; then came {worse.status} {worse.speedup}" if worse else ""
        return f"that was {evaluation.status} {evaluation.speedup}{more}"


def verdict(
    problem: Problem, candidate: Candidate, config: EvaluationConfig, on_stage: Callable[[Stage], None]
) -> Evaluation:
    """Judges by the candidate's `mark`, such as `PASSED 2.5` or `WRONG_VALUES`."""
    on_stage(Stage.SCREEN)
    mark = re.search(r"mark = (.*)", candidate.source)
    words = str(ast.literal_eval(mark[1])).split() if mark else ["REJECTED"]
    status = Status(words[0])
    return make.evaluation(
        status,
        float(words[1]) if len(words) > 1 and status is Status.PASSED else None,
        problem=problem,
        source=candidate.source,
        backend=candidate.backend,
        config=config,
    )


@dataclass
class Bench:
    """A workspace with one run after the other."""

    root: Path
    events: list[Event] = field(default_factory=list)
    judged: list[tuple[str, str]] = field(default_factory=list)
    evaluate: Callable[..., Evaluation] = verdict
    threads: set[str] = field(default_factory=set)

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root)

    def plan(self, problems: int = 2, **changes: Any) -> Plan:
        fields: dict[str, Any] = {
            "problems": tuple(f"level1/{number:02}_p" for number in range(problems)),
            "backends": ("cpp",),
            "models": (ModelChoice(name="model-a"),),
            "strategy": Sample(samples=2),
            "budget": Budget(),
        }
        return Plan(**{**fields, **changes})

    def begin(self, plan: Plan) -> RunLog:
        return begin(self.workspace.archive(), plan, [make.problem(name) for name in plan.problems])

    def resume(self, run: str | None = None) -> RunLog:
        return resume(self.workspace.archive(), run)

    def batch(self, log: RunLog, provider: ScriptedProvider, **changes: Any) -> Batch:
        def judging(
            problem: Problem, candidate: Candidate, config: EvaluationConfig, on_stage: Any
        ) -> Evaluation:
            self.judged.append((problem.id, candidate.sha))
            self.threads.add(threading.current_thread().name)
            return self.evaluate(problem, candidate, config, on_stage)

        fields: dict[str, Any] = {
            "log": log,
            "workspace": self.workspace,
            "providers": {"model-a": provider},
            "evaluate": judging,
            "prompts": PlainPrompts(),
            "on_event": self.events.append,
        }
        return Batch(**{**fields, **changes})

    def run(self, plan: Plan, provider: ScriptedProvider, **changes: Any) -> RunSummary:
        with self.begin(plan) as log:
            return self.batch(log, provider, **changes).run()

    def go_on(self, provider: ScriptedProvider, **changes: Any) -> RunSummary:
        with self.resume() as log:
            return self.batch(log, provider, **changes).run()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def attempts(self) -> dict[tuple[str, int, int], Any]:
        found = self.workspace.archive().attempts()
        return {(attempt.key.problem, attempt.key.sample, attempt.key.turn): attempt for attempt in found}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def scripted() -> type[ScriptedProvider]:
    return ScriptedProvider


@pytest.fixture
def says() -> Callable[[str], str]:
    """A reply whose candidate earns the verdict."""
    return make.reply
