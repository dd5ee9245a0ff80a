"""Independent samples are the drawn ones, however often the completion cache repeats it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.leaderboard import Entry, board, to_csv
from kernelwright.evaluator import Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

PASSES = (True, False, False)
"""The correct one of three samples."""


def run(make: Make, folder: Path, *, cached: bool, turns: int = 1, fresh_turns: int = 0) -> None:
    with make.log(folder) as log:
        for sample, right in enumerate(PASSES):
            for turn in range(turns):
                key = make.key(
                    log.run, sample=sample, turn=turn, strategy="refine" if turns > 1 else "sample"
                )
                answer = make.answer(key, make.reply((sample, turn)))
                remembered = cached and turn < turns - fresh_turns
                completion = answer.completion.model_copy(update={"cached": remembered})
                attempt = log.record_completion(key, replace(answer, completion=completion))
                status = Status.PASSED if right else Status.WRONG_VALUES
                log.record_evaluation(attempt, make.evaluation(status))


def entry(folder: Path) -> Entry:
    (found,) = board(Archive(folder / "runs").attempts()).entries
    return found


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("drawn", [1, 0])
def test_samples_that_were_remembered_are_those_they_repeat(
    tmp_path: Path, make: Make, turns: int, drawn: int
) -> None:
    for cached in [False] * drawn + [True] * 2:
        run(make, tmp_path, cached=cached, turns=turns)
    found = entry(tmp_path)
    assert found.attempts == 3 * turns * (2 + drawn)
    assert (found.samples, [at.k for at in found.at_k]) == (3, [1, 2])
    assert [at.passed for at in found.at_k] == pytest.approx([1 / 3, 2 / 3])


def test_samples_that_only_look_alike_or_go_on_anew_are_further_ones(tmp_path: Path, make: Make) -> None:
    for _ in range(2):
        run(make, tmp_path / "alike", cached=False)
    assert entry(tmp_path / "alike").samples == 6
    run(make, tmp_path / "anew", cached=False, turns=2)
    run(make, tmp_path / "anew", cached=True, turns=2, fresh_turns=1)
    assert entry(tmp_path / "anew").samples == 6


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "model=1"])
def test_no_name_is_a_formula(tmp_path: Path, make: Make, name: str) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, model=name)
    (line,) = csv.DictReader(io.StringIO(to_csv(board(log.archive.attempts()))))
    assert line["model"] == (name if name == "model=1" else f"'{name}")
