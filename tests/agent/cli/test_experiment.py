"""An experiment from the command line: laid out for equal budgets, resumed, and told as JSON."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.agent.cli.runs.experiment import cost_text, equal_budgets
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.runner import read_plan
from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command, Quick, without


def laid_out(*names: str, turns: int = 4, **limits: float) -> dict[str, Any]:
    return equal_budgets(names, limits, {"turns": turns, "population": 4})


def test_every_strategy_is_laid_out_for_the_same_number_of_replies() -> None:
    settings = laid_out(attempts=10)
    assert settings["problem_budget"] == {"attempts": 10}
    assert settings["compared"] == {
        "sample": {"samples": 10},
        "refine": {"samples": 3, "turns": 4},
        "evolve": {"population": 4, "generations": 3},
    }
    assert laid_out()["problem_budget"] == {"attempts": 8}
    assert laid_out(tokens=1000)["problem_budget"] == {"tokens": 1000}
    assert laid_out("refine", attempts=2)["compared"] == {"refine": {"samples": 1, "turns": 2}}


def test_an_experiment_says_what_each_strategy_achieved_and_goes_on(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    for path in (tmp_path / "replies").rglob("*.md"):
        path.write_text("No code.")
    arguments = without(quick, "--turns")
    bounds = (
        "--attempts",
        "3",
        "--max-tokens",
        "1000000",
        "--max-time",
        "1h",
        "--set",
        "problem_budget.tokens=99999",
    )
    strategies = ("-s", "sample", "-s", "refine")
    result = kernelwright("experiment", *arguments, *strategies, *bounds, "--backward", "--json")
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert (answer["end"], answer["budget"]) == ("complete", {"attempts": 3, "tokens": 99999})
    assert [(row["strategy"], row["solved"], row["attempts"]) for row in answer["strategies"]] == [
        ("refine", 0, 3),
        ("sample", 0, 3),
    ]
    assert all(row["tokens"] > 0 and row["geomean"]["value"] == 1.0 for row in answer["strategies"])
    archive = Workspace(tmp_path).archive()
    plan = read_plan(archive, archive.find())
    assert (plan.budget, plan.config.passes) == (Budget(tokens=1_000_000, seconds=3600), "forward_backward")
    again = kernelwright("experiment", "--resume", "last", "--quiet")
    assert (again.exit_code, "0 of 1" in again.stdout) == (1, True), again.output
    counts = Counter(attempt.key.strategy for attempt in archive.attempts())
    assert counts == {"sample": 3, "refine": 3}
    assert kernelwright("run", "--resume", "last", "--quiet").exit_code == 1


@pytest.mark.parametrize(("unpriced", "said"), [(0, "$0.5000"), (1, "$0.5000 and 1 unknown"), (3, "unknown")])
def test_a_cost_that_is_known_in_part_is_not_the_whole(unpriced: int, said: str) -> None:
    entry: Any = SimpleNamespace(attempts=3, unpriced=unpriced, cost_usd=0.5)
    assert cost_text(entry) == said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("-s", "sample"), "at least two strategies"),
        (("-s", "guess"), "no strategy 'guess'; known: evolve, refine, sample"),
    ],
)
def test_what_cannot_be_compared_is_said(
    kernelwright: Command, quick: Quick, more: tuple[str, ...], words: str
) -> None:
    result = kernelwright("experiment", *without(quick, "--turns"), *more)
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
