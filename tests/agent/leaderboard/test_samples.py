"""Independent samples are the drawn ones, however often they are repeated or measured."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets import DatasetSettings, Filters, find_exporter
from kernelwright.agent.leaderboard import Entry, board, to_csv
from kernelwright.evaluator import Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

PASSES = (True, False, False)
"""The correct one of three samples."""


def run(make: Make, folder: Path, *, response: str = "", turns: int = 1, fresh: str = "") -> None:
    """Record three samples; `response` names their responses, `fresh` that of the last turn."""
    with make.log(folder) as log:
        for sample, right in enumerate(PASSES):
            for turn in range(turns):
                key = make.key(
                    log.run, sample=sample, turn=turn, strategy="refine" if turns > 1 else "sample"
                )
                answer = make.answer(key, make.reply((sample, turn)))
                name = fresh if fresh and turn == turns - 1 else response
                completion = answer.completion.model_copy(update={"response_id": name and f"{name} {sample}"})
                attempt = log.record_completion(key, replace(answer, completion=completion))
                status = Status.PASSED if right else Status.WRONG_VALUES
                source = make.code((sample, turn))
                log.record_evaluation(attempt, make.evaluation(status, source=source))


def entry(folder: Path) -> Entry:
    (found,) = board(Archive(folder / "runs").attempts()).entries
    return found


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("response", ["", "remembered"])
def test_samples_of_another_run_are_those_they_repeat(
    tmp_path: Path, make: Make, turns: int, response: str
) -> None:
    for _ in range(3):
        run(make, tmp_path, response=response, turns=turns)
    found = entry(tmp_path)
    assert found.attempts == 3 * turns * 3
    assert (found.samples, [at.k for at in found.at_k]) == (3, [1, 2])
    assert [at.passed for at in found.at_k] == pytest.approx([1 / 3, 2 / 3])


def test_samples_that_only_look_alike_or_go_on_anew_are_further_ones(tmp_path: Path, make: Make) -> None:
    for response in ("one", "other"):
        run(make, tmp_path / "alike", response=response)
    assert entry(tmp_path / "alike").samples == 6
    run(make, tmp_path / "anew", response="one", turns=2)
    run(make, tmp_path / "anew", response="one", turns=2, fresh="other")
    assert entry(tmp_path / "anew").samples == 6


def evaluated(make: Make, folder: Path, outcome: float | Status, *, busy: bool = False) -> None:
    with make.log(folder) as log:
        key = make.key(log.run)
        attempt = log.record_completion(key, make.answer(key, make.reply("same")))
        status, speedup = (outcome, None) if isinstance(outcome, Status) else (Status.PASSED, outcome)
        measured = make.measurement(speedup or 1.0).model_copy(update={"contended": busy})
        fields = {"measurement": measured} if speedup else {}
        log.record_evaluation(
            attempt, make.evaluation(status, speedup, source=make.code("same"), **fields), confirms=False
        )


def counts_as(folder: Path, outcomes: list[float | Status], make: Make) -> float:
    for outcome in outcomes:
        evaluated(make, folder, outcome)
    return entry(folder).geomean.value


def test_measuring_one_candidate_again_makes_it_no_faster(tmp_path: Path, make: Make) -> None:
    assert counts_as(tmp_path / "a", [0.95, 1.02, 0.97, 1.30, 1.00], make) == pytest.approx(1.0)
    assert counts_as(tmp_path / "b", [1.0, 1.4], make) == pytest.approx(1.0)
    assert counts_as(tmp_path / "c", [1.4, Status.WRONG_VALUES, 1.5], make) == pytest.approx(1.4)
    assert counts_as(tmp_path / "d", [1.4, 1.4, Status.TAMPERED], make) == pytest.approx(1.0)
    evaluated(make, tmp_path / "e", 9.0, busy=True)
    assert counts_as(tmp_path / "e", [1.2], make) == pytest.approx(1.2)
    (problem,) = board(Archive(tmp_path / "a" / "runs").attempts()).problems
    assert problem.best is not None and (problem.best.speedup, problem.best.is_confirmed) == (1.0, True)


def test_an_example_has_the_score_that_counts(tmp_path: Path, make: Make) -> None:
    for outcome in (0.95, 1.02, 1.07, 1.30, 1.05):
        evaluated(make, tmp_path, outcome)
    export = find_exporter("sft").write
    export(Archive(tmp_path / "runs"), tmp_path / "sft", DatasetSettings(test=0))
    (line,) = (tmp_path / "sft" / "messages" / "train.jsonl").read_text().splitlines()
    assert json.loads(line)["source"]["speedup"] == 1.05
    fast = DatasetSettings(test=0, filters=Filters(min_speedup=1.2))
    assert export(Archive(tmp_path / "runs"), tmp_path / "fast", fast).left_out["filter: min speedup"] == 5


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "model=1"])
def test_no_name_is_a_formula(tmp_path: Path, make: Make, name: str) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, model=name)
    (line,) = csv.DictReader(io.StringIO(to_csv(board(log.archive.attempts()))))
    assert line["model"] == (name if name == "model=1" else f"'{name}")


def test_who_tried_more_often_is_not_ahead_for_that(tmp_path: Path, make: Make) -> None:
    """Both draw from the same speeds; one draws eight times as often."""
    with make.log(tmp_path) as log:
        for number in range(6):
            name = f"level1/{number:02}_p"
            for sample, speedup in enumerate([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]):
                make.attempt(log, problem=name, model="often", sample=sample, speedup=speedup)
            make.attempt(log, problem=name, model="once", speedup=1.5)
    standing = board(log.archive.attempts())
    once, often = sorted(standing.entries, key=lambda entry: entry.of.model == "often")
    assert (often.geomean.value, once.geomean.value) == (pytest.approx(2.0), pytest.approx(1.5))
    assert (often.ranked.value, once.ranked.value) == (pytest.approx(2.0**0.5), pytest.approx(1.5))
    assert [(entry.of.model, entry.rank, entry.ranked_k) for entry in standing.entries] == [
        ("once", 1, 1.0),
        ("often", 2, 1.0),
    ]
    assert often.per_problem == 8.0


def test_equal_attempts_are_equal_whether_in_samples_or_in_conversations(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample, speedup in enumerate([1.0, 4.0, 1.0, 1.0]):
            make.attempt(log, sample=sample, speedup=speedup)
        for sample in range(2):
            for turn, speedup in enumerate([1.0, 4.0] if sample else [1.0, 1.0]):
                make.attempt(log, strategy="refine", sample=sample, turn=turn, speedup=speedup)
    both = {entry.of.strategy: entry for entry in board(log.archive.attempts()).entries}
    assert {name: entry.ranked_k for name, entry in both.items()} == {"sample": 4.0, "refine": 4.0}
    assert all(entry.ranked.value == pytest.approx(4.0) for entry in both.values())
    with make.log(tmp_path) as log:
        make.attempt(log, model="one try", speedup=1.0)
    both = {entry.of.strategy: entry for entry in board(log.archive.attempts(None)).entries}
    assert both["refine"].ranked.value == pytest.approx(1.0), "its first turn alone"
    assert both["refine"].geomean.value == pytest.approx(4.0)
