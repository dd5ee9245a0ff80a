"""The last lines of a run: its cost as far as that is known, and the command that goes on with it."""

from __future__ import annotations

import shlex
from decimal import Decimal
from pathlib import Path

import pytest

from kernelwright.agent.cli.runs.run_summary import run_lines
from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Usage
from kernelwright.agent.runner import RunSummary
from kernelwright.agent.workspace import Workspace


def said(
    folder: Path, *, bulk: bool = False, end: RunEnd = RunEnd.COMPLETE, **more: object
) -> dict[str, str]:
    summary = RunSummary(run_id="r", end=end, reason=str(more.pop("reason", "")), **more)  # type: ignore[arg-type]  # a test's keywords
    return dict(run_lines(Workspace(folder), summary, bulk=bulk))


def test_a_cost_that_nobody_knows_is_said(tmp_path: Path) -> None:
    assert "$" not in said(tmp_path, attempts=2)["run"]
    assert "cost of 2 replies unknown" in said(tmp_path, attempts=2, unpriced=2)["run"]
    both = said(tmp_path, attempts=3, unpriced=1, cost_usd=Decimal("0.5"))["run"]
    assert "$0.5000, cost of 1 replies unknown" in both


@pytest.mark.parametrize(
    ("budget", "option"),
    [
        (Budget(cost_usd=Decimal("0.000001")), "--max-cost 0.000002"),
        (Budget(tokens=10_000_000, attempts=100), "--max-attempts 200"),
        (Budget(tokens=1000, cost_usd=Decimal(50)), "--max-tokens 2000"),
        (Budget(seconds=60.0), "--max-time 120"),
        (Budget(cost_usd=Decimal(0)), "--max-cost 1"),
    ],
)
def test_a_spent_budget_ends_with_the_command_that_raises_it(
    tmp_path: Path, budget: Budget, option: str
) -> None:
    spent = {
        "attempts": 100,
        "usage": Usage(prompt_tokens=1200),
        "cost_usd": Decimal("0.01"),
        "seconds": 60.0,
    }
    lines = said(tmp_path, end=RunEnd.BUDGET, budget=budget, evaluated=100, **spent)
    assert lines["raise it"] == f"kernelwright run --resume r --workspace {tmp_path} {option}"
    assert "go on" not in lines, "without more to spend it would stop again"


def test_replies_of_a_spent_budget_can_be_judged(tmp_path: Path) -> None:
    lines = said(tmp_path, end=RunEnd.BUDGET, budget=Budget(attempts=2), attempts=2)
    assert "run --resume r" in lines["go on"]
    assert "2 replies wait to be evaluated" in lines["go on"]


@pytest.mark.parametrize("end", [RunEnd.INCOMPLETE, RunEnd.ASKED, RunEnd.INTERRUPTED, RunEnd.BROKEN])
def test_what_was_asked_in_bulk_is_collected_by_generate(tmp_path: Path, end: RunEnd) -> None:
    lines = said(tmp_path, bulk=True, end=end, to_come=2, attempts=3)
    assert lines["collect"] == f"kernelwright generate --resume r --workspace {tmp_path}"
    assert "kernelwright run --resume r" in lines["evaluate"]
    nothing = said(tmp_path, bulk=True, end=end, to_come=2)
    assert not {"evaluate", "go on"} & set(nothing), "`run --resume` asks nobody"
    refused = said(tmp_path, bulk=True, end=end, attempts=3)
    assert {"evaluate", "go on", "collect"} & set(refused) == {"evaluate"}


def test_a_command_that_goes_on_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    place = tmp_path / "my runs; echo"
    lines = said(place, end=RunEnd.INTERRUPTED)
    assert shlex.split(lines["go on"])[-2:] == ["--workspace", str(place)]
