"""Two small runs with something of everything, plain or with scripts planted in every text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive import Archive, ExtractedReply, RunLog
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message, Usage
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    Finding,
    Problem,
    Sanitization,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.schema.evaluation import Attribution, Build, Plausibility, Verification

if TYPE_CHECKING:
    from tests.agent.conftest import Make

POISON = (
    "</script><script>window.pwned=1</script>\"'><img src=x onerror=window.pwned=1>"
    + "w" * 80
    + "<svg/onload=window.pwned=1><style>*{display:none}</style>{{7*7}}{%raw%}<!--]]>\u202e\u2028\x00\x1b[31m"
)
PROBLEMS = 6


@dataclass(frozen=True)
class Planter:
    """Writes runs; `poison` goes into every text that somebody else may have written."""

    make: Make
    folder: Path
    poison: str = ""

    def text(self, words: str) -> str:
        return f"{words}{self.poison}"

    def problem(self, number: int) -> Problem:
        name = f"level{1 + number % 2}/{number:02}_problem{self.poison.replace('/', '|')}"
        source = (
            f'"""{number}{self.poison!r}"""\nclass Model: ...\ndef get_inputs(): return []\n'
            if self.poison
            else f'"""Problem {number}."""\nclass Model: ...\ndef get_inputs(): return []\n'
        )
        return problem_from_source(source, name)

    def code(self, mark: str) -> str:
        return (
            f"import torch\n\nsource = r'''\n#include <cmath>\n// {self.text(mark)}\nfloat f(float x) "
            "{ return x * 2.0f; }\n'''\n\n\nclass ModelNew(torch.nn.Module):\n"
            f"    mark = {mark!r}  # {self.text('twice').replace(chr(0), '')}\n"
        )

    def run(self, speedups: dict[str, list[float | None]]) -> RunLog:
        """One run: by model, the best speedup of each problem; None where nothing is right."""
        problems = tuple(self.problem(number) for number in range(PROBLEMS))
        with self.make.log(
            self.folder, plan='{"config": {"baselines": ["eager"]}}', problems=problems
        ) as log:
            for model, values in speedups.items():
                for number, speedup in enumerate(values):
                    problem = problems[number]
                    self.attempt(log, problem, model, 0, Status.COMPILE_ERROR, None)
                    status = Status.WRONG_VALUES if speedup is None else Status.PASSED
                    self.attempt(log, problem, model, 1, status, speedup)
            self.attempt(log, problems[0], "model-b", 2, Status.TAMPERED, None)
        return log

    def attempt(
        self, log: RunLog, problem: Problem, model: str, turn: int, status: Status, speedup: float | None
    ) -> None:
        key = self.make.key(
            log.run,
            problem=problem.id,
            model=self.text(model),
            strategy=self.text("refine"),
            backend="cpp",
            turn=turn,
        )
        code = self.code(f"{problem.id.rpartition('/')[2][:3]} {model} {turn} {speedup}")
        reply = f"Here it is{self.poison}.\n\n```python\n{code}```\n"
        request = CompletionRequest(
            model=key.model,
            messages=(
                Message(role="system", content=self.text("Write fast kernels. ") * 80),
                Message(role="user", content=self.text(f"Make {problem.id} fast.")),
            ),
            problem=problem.id,
            backend="cpp",
            turn=turn,
        )
        completion = Completion(
            provider=self.text("scripted"),
            model=self.text("model-2026"),
            text=reply,
            reasoning=self.text("Let me think."),
            finish_reason="stop",
            usage=Usage(prompt_tokens=400, completion_tokens=100 + 10 * turn),
            cost_usd=0.002,
            seconds=1.0,
            completed_at=self.text("2026-01-01T00:00:00+00:00"),
        )
        found = extract(reply, finish_reason="stop")
        answer = ExtractedReply(
            request=request,
            completion=completion,
            extraction=found,
            license=self.text("MIT"),
            origin=self.text("scripted"),
        )
        attempt = log.record_completion(key, answer)
        evaluation = self.evaluation(problem, found.code or code, status, speedup)
        log.record_evaluation(attempt, evaluation, confirms=status is Status.PASSED)

    def evaluation(self, problem: Problem, source: str, status: Status, speedup: float | None) -> Evaluation:
        passed = status is Status.PASSED
        number = int(problem.id.rpartition("/")[2][:2])
        environment = self.make.environment(self.text("Test CPU")).model_copy(
            update={"torch": self.text("2.13"), "python": self.text("3.11")}
        )
        tools = Sanitization(ran=number != 1, reason=self.text("why"), tools=(self.text("address"),))
        track = {3: "mixed", 4: "library"}.get(number, "own")
        return self.make.evaluation(
            status,
            speedup,
            problem=problem,
            candidate_sha=Candidate(source=source, backend="cpp").sha,
            detail=self.text(f"ended as {status}"),
            traceback=self.text("Traceback"),
            output_tail=self.text("printed"),
            notes=(self.text("note"),),
            findings=(Finding(rule=self.text("patching"), line=1, message=self.text("looks odd")),),
            builds=(
                Build(
                    name=self.text("extension"),
                    key="0" * 64,
                    tier="lean",
                    cached=False,
                    seconds=1.0,
                    ok=passed,
                    log=self.text("log"),
                ),
            ),
            problem_flaws=(self.text("ignores_input"),) if number == 2 else (),
            environment=environment if status is not Status.COMPILE_ERROR else None,
            attribution=Attribution(track=track, source=self.text("symbols")) if passed else None,
            sanitization=tools if passed else None,
            verification=Verification(
                trials=9,
                distributions=("as_drawn",),
                weights="seed",
                parameters="seed",
                error_ratio=2.0,
                limit_ratio=64.0,
            ),
            plausibility=Plausibility(bytes_moved=1 << 20, speed_of_light=0.1 + 0.1 * number),
        )


def plant(make: Make, folder: Path, poison: str = "") -> Archive:
    """Two runs: from one to the other a problem is solved, one lost, one better, one worse, two the same."""
    planter = Planter(make, folder, poison)
    planter.run({"model-a": [None, 1.5, 2.0, 2.0, 1.0, 3.0], "model-b": [None, 1.0, 1.5, None, 0.5, 2.0]})
    planter.run({"model-a": [1.25, 1.5, 3.0, 1.25, None, 3.0], "model-b": [None, 1.0, 1.5, None, None, 2.5]})
    return Archive(folder / "runs")


@pytest.fixture
def poison() -> str:
    return POISON


@pytest.fixture
def runs(make: Make, tmp_path: Path) -> Archive:
    return plant(make, tmp_path)


@pytest.fixture
def poisoned_runs(make: Make, tmp_path: Path) -> Archive:
    return plant(make, tmp_path, POISON)
