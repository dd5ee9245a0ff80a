"""Builders of real records for tests of the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.archive import Answer, Archive, RunLog, begin_run
from agent.extraction import extract
from agent.messages import Completion, CompletionRequest, Message, Usage
from agent.run import Attempt, AttemptKey
from evaluator import Candidate, Evaluation, EvaluationConfig, Problem, Stage, Status, problem_from_source
from evaluator.evaluation import (
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
    Status.COMPILE_ERROR: Stage.BUILD,
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

    def answer(self, key: AttemptKey, text: str, **changes: object) -> Answer:
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
        return Answer(request=request, completion=completion, extraction=extract(text, finish_reason="stop"))

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
            baselines={"eager": timing(speedup)},
            speedups={"eager": speedup},
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
        """Record a reply and, unless the status is None, a verdict."""
        speedup = changes.pop("speedup", 2.0)
        key = self.key(log.run, **changes)
        mark = f"{key.problem}/{key.sample}/{key.turn}"
        has_code = status not in (Status.NO_CODE, Status.TRUNCATED)
        text = self.reply(mark) if has_code else "I cannot."
        attempt = log.record_completion(key, self.answer(key, text))
        if status is None:
            return attempt
        evaluation = self.evaluation(
            status, speedup, problem=self.problem(key.problem), source=self.code(mark), backend=key.backend
        )
        return log.record_evaluation(attempt, evaluation)


@pytest.fixture
def make() -> Make:
    return Make()
