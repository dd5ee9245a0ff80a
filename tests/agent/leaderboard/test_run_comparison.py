"""Two runs side by side, from real logs: what counts as a change, and what cannot be compared."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from kernelwright.agent.archive import RunLog
from kernelwright.agent.leaderboard import compare_runs, render_comparison
from kernelwright.agent.leaderboard.rows import read_rows
from kernelwright.agent.leaderboard.run_comparison import Change, RunComparison
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.evaluator import EvaluationConfig, Math, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

Outcome = tuple[float, float, float] | Status
"""Speedup, low and high; or how it failed."""


@pytest.fixture
def compared(tmp_path: Path, make: Make) -> Callable[..., RunComparison]:
    """Compares runs given as outcomes by problem."""

    def write(outcomes: dict[str, list[Outcome]], device: str, **changes: object) -> RunLog:
        with make.log(tmp_path) as log:
            for problem, tries in outcomes.items():
                for sample, outcome in enumerate(tries):
                    attempt = make.attempt(log, None, problem=problem, sample=sample)
                    source = make.code((log.run, sample))
                    fields: dict[str, object] = {"problem": make.problem(problem), "device": device}
                    fields["source"] = source
                    if isinstance(outcome, Status):
                        fields["status"] = outcome
                    else:
                        fields |= {"speedup": outcome[0], "measurement": make.measurement(*outcome)}
                    log.record_evaluation(attempt, make.evaluation(**{**fields, **changes}), confirms=True)
        return log

    def compare(
        before: dict[str, list[Outcome]],
        after: dict[str, list[Outcome]],
        *,
        device: str = "Test CPU",
        equal_attempts: bool = True,
        **changes: object,
    ) -> RunComparison:
        first, second = write(before, "Test CPU"), write(after, device, **changes)
        rows = read_rows(chain(first.archive.attempts(first.run), first.archive.attempts(second.run)))
        return compare_runs(rows.evaluated, first.run, second.run, equal_attempts=equal_attempts)

    return compare


def changes(comparison: RunComparison) -> dict[str, Change]:
    return {row.problem: row.change for row in comparison.differences}


def test_only_intervals_that_do_not_meet_are_a_change(compared: Callable[..., RunComparison]) -> None:
    before = {"up": [(1.0, 0.9, 1.1)], "down": [(2.0, 1.9, 2.1)], "noise": [(1.0, 0.9, 1.1)]}
    after = {"up": [(1.2, 1.11, 1.3)], "down": [(1.5, 1.4, 1.89)], "noise": [(1.2, 1.1, 1.3)]}
    comparison = compared(before, after)
    assert changes(comparison) == {
        "up": Change.BETTER,
        "down": Change.WORSE,
        "noise": Change.WITHIN_NOISE,
    }
    assert comparison.counts == {change: int(change in changes(comparison).values()) for change in Change}


def test_what_was_measured_once_is_apart_neither_better_nor_worse(tmp_path: Path, make: Make) -> None:
    runs = []
    for speedup in (1.0, 2.0):
        with make.log(tmp_path) as log:
            make.attempt(log, speedup=speedup, sample=int(speedup), confirms=False)
        runs.append(log.run)
    (row,) = compare_runs(read_rows(log.archive.attempts()).evaluated, *runs).differences
    assert (row.change, row.why) == (Change.APART, "the intervals are 0.94 apart, better")
    assert row.change == "apart (measured once)"


def test_the_best_right_attempt_of_each_run_is_compared(compared: Callable[..., RunComparison]) -> None:
    before = {"p": [(1.0, 0.9, 1.1), (3.0, 2.9, 3.1), Status.WRONG_VALUES]}
    after = {"p": [Status.COMPILE_ERROR, (3.0, 2.8, 3.2)]}
    (row,) = compared(before, after).differences
    assert row.change is Change.WITHIN_NOISE
    assert row.before is not None and row.after is not None
    assert (row.before.speedup, row.before.attempts, row.before.passed) == (3.0, 2, 2)
    assert (row.after.speedup, row.after.attempts, row.after.passed) == (3.0, 2, 1)


def test_what_is_solved_lost_and_never_solved_is_told_apart(compared: Callable[..., RunComparison]) -> None:
    right, wrong = [(2.0, 1.9, 2.1)], [Status.WRONG_VALUES]
    comparison = compared(
        {"won": wrong, "lost": right, "never": wrong, "gone": right},
        {"won": right, "lost": wrong, "never": wrong, "new": right},
    )
    assert changes(comparison) == {
        "won": Change.NEWLY_SOLVED,
        "lost": Change.NEWLY_LOST,
        "never": Change.UNSOLVED,
        "gone": Change.NOT_COMPARABLE,
        "new": Change.NOT_COMPARABLE,
    }
    sides = {row.problem: (row.before is None, row.after is None) for row in comparison.differences}
    assert sides["gone"] == (False, True) and sides["new"] == (True, False)


def test_other_hardware_and_other_terms_are_not_compared(compared: Callable[..., RunComparison]) -> None:
    one = {"p": [(1.0, 0.9, 1.1)]}
    for changed in ({"device": "NVIDIA H200"}, {"config": EvaluationConfig(math=Math.TF32)}):
        comparison = compared(one, {"p": [(9.0, 8.9, 9.1)]}, **changed)
        assert comparison.counts[Change.NOT_COMPARABLE] == len(comparison.differences) == 2


def test_a_changed_problem_is_not_compared(compared: Callable[..., RunComparison], make: Make) -> None:
    one = {"p": [(1.0, 0.9, 1.1)]}
    (row,) = compared(one, {"p": [(9.0, 8.9, 9.1)]}, problem_sha="f" * 64).differences
    assert (row.change, row.why) == (Change.NOT_COMPARABLE, "the problem's source has changed")


def test_other_baselines_are_another_policy_and_the_fastest_of_the_same_ones_is_not(
    compared: Callable[..., RunComparison], make: Make
) -> None:
    one, nine = {"p": [(1.0, 0.9, 1.1)]}, {"p": [(9.0, 8.9, 9.1)]}
    against = make.measurement(9.0, 8.9, 9.1).model_copy(update={"against": "compile"})
    (row,) = compared(one, nine, measurement=against).differences
    assert row.change is Change.BETTER
    comparison = compared(one, nine, config=EvaluationConfig(baselines=("eager",)))
    assert comparison.counts[Change.NOT_COMPARABLE] == len(comparison.differences) == 2


def test_the_best_of_equally_many_attempts_is_compared(compared: Callable[..., RunComparison]) -> None:
    before = {"p": [(1.0, 0.9, 1.1)]}
    after = {"p": [(1.0, 0.9, 1.1), Status.WRONG_VALUES, (3.0, 2.9, 3.1)]}
    (row,) = compared(before, after).differences
    assert row.change is Change.WITHIN_NOISE
    assert row.after is not None and (row.after.attempts, row.after.made) == (1, 3)
    (row,) = compared(before, after, equal_attempts=False).differences
    assert row.change is Change.BETTER


def test_a_difference_that_a_second_measurement_denies_is_noise(tmp_path: Path, make: Make) -> None:
    runs = []
    for speedup in (1.0, 2.0):
        with make.log(tmp_path) as log:
            make.attempt(log, speedup=speedup, sample=int(speedup))
        runs.append(log.run)
    rows = read_rows(log.archive.attempts()).evaluated

    def again(row: AttemptView) -> AttemptView:
        return replace(row, speedup=1.5, low=1.4, high=1.6)

    (row,) = compare_runs(rows, *runs, again=again).differences
    assert row.change is Change.WITHIN_NOISE
    assert row.why == "1.50× and 1.50× when measured again: the intervals meet"
    (row,) = compare_runs(rows, *runs, again=lambda row: row).differences
    assert row.change is Change.BETTER and "when measured again" in row.why
    failing = replace(rows[0], status=Status.RACE, speedup=None, low=None, high=None)
    (row,) = compare_runs(rows, *runs, again=lambda row: failing).differences
    assert row.change is Change.NOT_COMPARABLE and "RACE" in row.why


def test_the_same_kernel_is_identical_whatever_was_measured(tmp_path: Path, make: Make) -> None:
    runs = []
    for speedup in (1.0, 2.0):
        with make.log(tmp_path) as log:
            make.attempt(log, speedup=speedup)
        runs.append(log.run)
    rows = read_rows(log.archive.attempts()).evaluated
    assert [row.change for row in compare_runs(rows, *runs).differences] == [Change.IDENTICAL]


def test_a_disturbed_measurement_is_never_better(compared: Callable[..., RunComparison], make: Make) -> None:
    disturbed = make.measurement(9.0, 8.9, 9.1).model_copy(update={"contended": True})
    (row,) = compared({"p": [(1.0, 0.9, 1.1)]}, {"p": [(9.0, 8.9, 9.1)]}, measurement=disturbed).differences
    assert row.change is Change.NOT_COMPARABLE and "other work disturbed" in row.why


def test_an_untimed_pass_is_right_but_not_comparable_in_speed(
    compared: Callable[..., RunComparison], make: Make
) -> None:
    one = {"p": [(1.0, 0.9, 1.1)]}
    (row,) = compared(one, {"p": [(2.0, 1.9, 2.1)]}, speedup=None, measurement=None).differences
    assert (row.change, row.why) == (
        Change.NOT_COMPARABLE,
        "right in both; its speed was not measured both times",
    )


def test_the_terminal_and_json_say_the_same(compared: Callable[..., RunComparison]) -> None:
    comparison = compared(
        {"p": [Status.WRONG_VALUES], "q": [(1.0, 0.9, 1.1)]}, {"p": [(2.0, 1.9, 2.1)], "q": [(2.0, 1.9, 2.1)]}
    )
    assert RunComparison.model_validate_json(comparison.model_dump_json()) == comparison
    console = Console(file=io.StringIO(), width=160)
    console.print(render_comparison(comparison))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for words in ("1 newly solved", "1 better", "0 newly lost", "0/1 right", "2.00× 1.90–2.10", "0.80 apart"):
        assert words in text
