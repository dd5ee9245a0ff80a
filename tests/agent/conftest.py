"""Builders of real records, a scripted provider and a bench to run batches on, for tests of the agent."""

from __future__ import annotations

import ast
import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.archive import Archive, ExtractedReply, RunLog, begin_run, resume_run
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.records.attempt_log import Attempt, AttemptKey
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message, ProviderError, Usage
from kernelwright.agent.runner import BatchRunner, ModelChoice, Plan, RunSummary, begin
from kernelwright.agent.runner.events import Event
from kernelwright.agent.strategies import Exemplar
from kernelwright.agent.strategies.sample import Sample
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    EvaluationConfig,
    Problem,
    Stage,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.schema.evaluation import (
    Attribution,
    Environment,
    Interval,
    Measurement,
    SandboxReport,
    Timing,
)

STAGE_OF = {
    Status.NO_CODE: Stage.SCREEN,
    Status.TRUNCATED: Stage.SCREEN,
    Status.REJECTED: Stage.SCREEN,
    Status.COMPILE_ERROR: Stage.LOAD,
    Status.RUNTIME_ERROR: Stage.LOAD,
    Status.WRONG_VALUES: Stage.VERIFY,
    Status.TAMPERED: Stage.TIME,
    Status.PASSED: Stage.DECIDE,
}


class Make:
    """Builds what a test needs, with everything a test does not care about filled in."""

    def problem(self, name: str = "level1/01_add") -> Problem:
        return problem_from_source(f"# {name}\nclass Model: ...\ndef get_inputs(): return []\n", name)

    def code(self, mark: object = 0) -> str:
        return f"import torch\n\nclass ModelNew(torch.nn.Module):\n    mark = {mark!r}\n"

    def reply(self, mark: object = 0) -> str:
        return f"Here it is.\n\n```python\n{self.code(mark)}```\n"

    def key(self, run: str = "run", **changes: object) -> AttemptKey:
        fields: dict[str, object] = {
            "problem": "level1/01_add",
            "backend": "cpp",
            "model": "model-a",
            "strategy": "sample",
        }
        return AttemptKey.model_validate({"run": run, **fields, **changes})

    def completion(self, text: str, *, tokens: int = 100, cost_usd: float | None = 0.01) -> Completion:
        return Completion(
            provider="scripted",
            model="model-a-2026",
            text=text,
            finish_reason="stop",
            usage=Usage(prompt_tokens=tokens // 2, completion_tokens=tokens - tokens // 2),
            cost_usd=cost_usd,
            seconds=1.5,
            completed_at="2026-01-01T00:00:00+00:00",
        )

    def answer(self, key: AttemptKey, text: str, **changes: object) -> ExtractedReply:
        request = CompletionRequest(
            model=key.model,
            messages=(
                Message(role="system", content="be quick"),
                Message(role="user", content="make it fast"),
            ),
            problem=key.problem,
            backend=key.backend,
            sample=key.sample,
            turn=key.turn,
        )
        completion = self.completion(text, **changes)
        return ExtractedReply(
            request=request, completion=completion, extraction=extract(text, finish_reason="stop")
        )

    def environment(self, device: str = "Test CPU") -> Environment:
        return Environment(
            device="cpu",
            device_name=device,
            torch="2.13.0",
            python="3.11",
            cpu="Test CPU",
            threads=2,
            sandbox=SandboxReport(tier="bubblewrap", limits="rlimits", seccomp=True, uid="own"),
        )

    def measurement(self, speedup: float, low: float | None = None, high: float | None = None) -> Measurement:
        def timing(milliseconds: float) -> Timing:
            return Timing(
                median_ms=milliseconds,
                spread_ms=0.01,
                turns=8,
                calls=80,
                outer_ms=milliseconds,
                clock="outer",
            )

        return Measurement(
            candidate=timing(1.0),
            baselines={"eager": timing(speedup), "compile": timing(speedup * 2)},
            speedups={"eager": speedup, "compile": speedup * 2},
            against="eager",
            speedup=speedup,
            interval=Interval(low=low if low is not None else speedup * 0.98, high=high or speedup * 1.02),
            calls_per_batch=10,
            ring_slots=4,
        )

    def evaluation(
        self,
        status: Status = Status.PASSED,
        speedup: float | None = 2.0,
        *,
        problem: Problem | None = None,
        source: str | None = None,
        backend: str = "cpp",
        device: str = "Test CPU",
        config: EvaluationConfig | None = None,
        track: str = "own",
        **changes: object,
    ) -> Evaluation:
        problem = problem or self.problem()
        timed = status is Status.PASSED and speedup is not None
        reached = status not in (Status.NO_CODE, Status.TRUNCATED, Status.REJECTED, Status.COMPILE_ERROR)
        fields = {
            "status": status,
            "stage": STAGE_OF.get(status, Stage.VERIFY),
            "detail": f"ended as {status}",
            "problem": problem.id,
            "problem_sha": problem.sha,
            "candidate_sha": Candidate(source=source or self.code(), backend=backend).sha,
            "backend": backend,
            "config": config or EvaluationConfig(),
            "speedup": speedup if timed else None,
            "measurement": self.measurement(speedup) if timed and speedup is not None else None,
            "environment": self.environment(device) if reached else None,
            "attribution": Attribution(track=track) if status is Status.PASSED else None,
            "stage_seconds": {"build": 1.0, "verify": 0.5},
        }
        return Evaluation.model_validate({**fields, **changes})

    def log(self, folder: Path, *, plan: str = "{}", problems: tuple[Problem, ...] = ()) -> RunLog:
        return begin_run(Archive(folder / "runs"), plan, problems or (self.problem(),), sync=False)

    def attempt(self, log: RunLog, status: Status | None = Status.PASSED, **changes: object) -> Attempt:
        """Record a reply and, unless the status is None, a verdict, by default a confirming one."""
        speedup, confirms = changes.pop("speedup", 2.0), changes.pop("confirms", True)
        key = self.key(log.run, **changes)
        mark = f"{key.problem}/{key.model}/{key.strategy}/{key.sample}/{key.turn}"
        has_code = status not in (Status.NO_CODE, Status.TRUNCATED)
        text = self.reply(mark) if has_code else "I cannot."
        attempt = log.record_completion(key, self.answer(key, text))
        if status is None:
            return attempt
        evaluation = self.evaluation(
            status, speedup, problem=self.problem(key.problem), source=self.code(mark), backend=key.backend
        )
        return log.record_evaluation(attempt, evaluation, confirms=confirms)


MAKE = Make()


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
        return MAKE.completion(said)

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
    return MAKE.evaluation(
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
            "confirm": False,
        }
        return Plan(**{**fields, **changes})

    def begin(self, plan: Plan) -> RunLog:
        return begin(self.workspace.archive(), plan, [MAKE.problem(name) for name in plan.problems])

    def resume(self, run: str | None = None) -> RunLog:
        return resume_run(self.workspace.archive(), run)

    def batch(self, log: RunLog, provider: ScriptedProvider, **changes: Any) -> BatchRunner:
        def judging(request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
            self.judged.append((request.problem.id, request.candidate.sha))
            self.threads.add(threading.current_thread().name)
            return self.evaluate(request.problem, request.candidate, request.config, hooks.on_stage)

        fields: dict[str, Any] = {
            "log": log,
            "workspace": self.workspace,
            "providers": {"model-a": provider},
            "evaluate": judging,
            "prompts": PlainPrompts(),
            "on_event": self.events.append,
        }
        return BatchRunner(**{**fields, **changes})

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
def anyio_backend() -> str:
    """The event loop of asynchronous tests."""
    return "asyncio"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def scripted() -> type[ScriptedProvider]:
    return ScriptedProvider


@pytest.fixture
def plain_prompts() -> type[PlainPrompts]:
    return PlainPrompts


@pytest.fixture
def says() -> Callable[[str], str]:
    """A reply whose candidate earns the verdict."""
    return MAKE.reply


@pytest.fixture
def make() -> Make:
    return MAKE
