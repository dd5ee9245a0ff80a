"""Archives to export, and their exports read back as plain rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets import Exported, find_exporter
from kernelwright.evaluator import Problem, Status, problem_from_source
from kernelwright.evaluator.schema.evaluation import Interval, Sanitization
from tests.agent.cli.conftest import kernelwright as kernelwright

if TYPE_CHECKING:
    from kernelwright.agent.archive import RunLog
    from kernelwright.agent.records.attempt_log import Attempt
    from tests.agent.conftest import Make

DATASET_FORMATS = ("attempts", "preference", "rl", "sft", "trajectories", "unpaired")

REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, {first}):
        return torch.{operation}({first}, {axes})


def get_inputs():
    return [torch.rand({size})]
"""

OPERATIONS = ("amax", "logsumexp", "cumsum", "softmax", "median", "argsort", "flip", "std", "roll", "norm")


def reference(name: str, *, first: str = "x", size: int = 64) -> Problem:
    """A problem unlike those of other numbers; the number is the name's first digits."""
    number = int(name.rpartition("/")[2].partition("_")[0])
    axes = ", ".join(f"1{number}{digit}" for digit in range(4 + number % 5))
    operation = OPERATIONS[number % len(OPERATIONS)]
    text = REFERENCE.format(first=first, operation=operation, axes=axes, size=f"{size}, {number}")
    return problem_from_source(text, name)


def source(mark: str) -> str:
    """A candidate unlike those of other marks."""
    body = "\n".join(f"        x = torch.{mark}_{letter}(x, {len(mark)})" for letter in "abcdefgh")
    head = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
    return f"{head}{body}\n        return x\n"


@dataclass
class Desk:
    """A workspace to fill and to export."""

    root: Path
    make: Make

    @staticmethod
    def reference(name: str, **changes: Any) -> Problem:
        return reference(name, **changes)

    @property
    def archive(self) -> Archive:
        return Archive(self.root / "runs")

    def log(self, *problems: str | Problem) -> RunLog:
        known = [reference(name) if isinstance(name, str) else name for name in problems]
        return self.make.log(self.root, problems=tuple(known))

    def attempt(
        self,
        log: RunLog,
        status: Status | None = Status.PASSED,
        *,
        problem: Problem | str = "level1/01_add",
        code: str | None = None,
        said: str | None = None,
        speed: tuple[float, float] | None = (1.9, 2.1),
        verdict: dict[str, Any] | None = None,
        license: str | None = None,
        prompt: tuple[Any, ...] | None = None,
        **key: object,
    ) -> Attempt:
        """Record a reply and its verdict; `speed` is the speedup's interval."""
        used = reference(problem) if isinstance(problem, str) else problem
        made = self.make.key(log.run, problem=used.id, **key)
        code = code or source(f"op{made.sample}x{made.turn}")
        text = said if said is not None else f"Here.\n\n```python\n{code}```\n"
        answer = self.make.answer(made, text)
        request = answer.request.model_copy(update={"messages": prompt}) if prompt else answer.request
        attempt = log.record_completion(made, self._licensed(answer, request, license))
        if status is None:
            return attempt
        speedup = sum(speed) / 2 if speed else None
        evaluation = self.make.evaluation(
            status, speedup, problem=used, source=code, backend=made.backend, **(verdict or {})
        )
        if evaluation.measurement and speed:
            measured = evaluation.measurement.model_copy(
                update={"interval": Interval(low=speed[0], high=speed[1])}
            )
            evaluation = evaluation.model_copy(update={"measurement": measured})
        if status is Status.PASSED and "sanitization" not in (verdict or {}):
            evaluation = evaluation.model_copy(update={"sanitization": Sanitization(ran=True)})
        return log.record_evaluation(attempt, evaluation)

    def export(self, format: str, name: str = "data", **settings: Any) -> Exported:
        exporter = find_exporter(format)
        return exporter.write(self.archive, self.root / name, exporter.settings(**settings))

    def rows(self, format: str, name: str = "data", table: str | None = None, **settings: Any) -> list[Any]:
        """The rows of every split, each with its split as `split`."""
        folder = self.export(format, name, **settings).folder
        return [
            {"split": file.stem, **json.loads(line)}
            for file in sorted(folder.glob(f"{table or '*'}/*.jsonl"))
            for line in file.read_text("utf-8").split("\n")
            if line
        ]

    def manifest(self, name: str = "data") -> Any:
        return json.loads((self.root / name / "manifest.json").read_text("utf-8"))

    @staticmethod
    def _licensed(answer: Any, request: Any, license: str | None) -> Any:
        return replace(answer, request=request, license=license)


@pytest.fixture
def desk(tmp_path: Path, make: Make) -> Desk:
    return Desk(tmp_path, make)
