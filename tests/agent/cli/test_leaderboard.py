"""`kernelwright leaderboard`: what it writes, what it compares, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.evaluator import EvaluationConfig, Status, read_problem
from tests.agent.cli.conftest import ESCAPING, MODEL, Command, Quick

if TYPE_CHECKING:
    from tests.agent.conftest import Make


@pytest.fixture
def two_runs(make: Make, tmp_path: Path) -> tuple[str, str]:
    names = []
    for speedup in (1.0, 2.0):
        with make.log(tmp_path) as log:
            make.attempt(log, speedup=speedup, sample=int(speedup))
            make.attempt(log, Status.WRONG_VALUES, problem="level1/02_p")
        names.append(log.run)
    return names[0], names[1]


def test_html_writes_one_file_and_says_so(
    kernelwright: Command, two_runs: tuple[str, str], tmp_path: Path
) -> None:
    result = kernelwright("leaderboard", "--html", "board.html")
    assert result.exit_code == 0
    assert result.stdout.startswith("wrote    board.html (") and "4 attempts" in result.stdout
    assert (tmp_path / "board.html").read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_compare_prints_and_speaks_json(kernelwright: Command, two_runs: tuple[str, str]) -> None:
    result = kernelwright("leaderboard", "--compare", *two_runs)
    assert result.exit_code == 0 and "1 better" in result.stdout and "level1/01_add" in result.stdout
    record = json.loads(kernelwright("leaderboard", "--compare", *two_runs, "--json").stdout)
    assert (record["before"], record["after"]) == two_runs
    assert record["counts"]["better"] == 1 and record["counts"]["unsolved in both"] == 1
    turned = json.loads(kernelwright("leaderboard", "--compare", *reversed(two_runs), "--json").stdout)
    assert turned["counts"]["worse"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--html", "board.html", "--json"), "--json and --html exclude each other"),
        (("--csv", "--json"), "--json and --csv exclude each other"),
        (("--again",), "--again needs --compare RUN_A RUN_B"),
        (("--compare", "a", "b", "--csv"), "--compare and --csv exclude each other"),
        (("--compare", "a", "b", "--run", "a"), "--compare and --run exclude each other"),
        (("--compare", "{0}", "{0}"), "are the same run"),
        (("--compare", "{0}", "nowhere"), "no run 'nowhere'"),
        (("--html", "missing/board.html"), "there is no folder"),
        (("--html", "."), "is a folder; name a file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    kernelwright: Command, two_runs: tuple[str, str], arguments: tuple[str, ...], words: str
) -> None:
    result = kernelwright("leaderboard", *(argument.format(*two_runs) for argument in arguments))
    assert result.exit_code == 2
    assert words in result.stderr and result.stderr.count("\n") == 1


def test_replies_that_wait_are_told_from_no_attempts(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    assert "no attempts below" in kernelwright("leaderboard").stdout
    with make.log(tmp_path) as log:
        make.attempt(log, None)
        make.attempt(log, None, sample=1)
    said = kernelwright("leaderboard").stdout
    assert said.startswith(
        f"2 replies wait to be evaluated: kernelwright run --resume {log.run} --workspace "
    )
    assert kernelwright("leaderboard", "--csv").stdout.startswith("rank,policy,model,")


def test_a_damaged_line_is_said_once_and_costs_only_itself(
    kernelwright: Command, two_runs: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "runs" / two_runs[0] / "attempts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"completion"', b'"comp', 1))
    for arguments in ((), ("--html", "board.html"), ("--compare", *two_runs)):
        result = kernelwright("leaderboard", *arguments)
        assert (result.exit_code, result.stderr.count("left out: ")) == (0, 1)


def test_a_stream_that_knows_only_ascii_is_enough(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, speedup=1.8, model="modèle")
    for arguments in ([], ["--json"]):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "kernelwright.agent.cli",
                "leaderboard",
                "--workspace",
                str(tmp_path),
                *arguments,
            ],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            cwd=Path(__file__).parents[3],
            check=True,
        )
        assert b"mod\\u00e8le" in done.stdout
        assert arguments or b"1.80x" in done.stdout


def test_again_evaluates_both_kernels_before_one_is_called_better(
    kernelwright: Command, quick: Quick, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, runs = read_problem(Path(quick[0])), []
    for speedup, expression in ((1.0, "x * 2 + 1"), (2.0, "1 + 2 * x")):
        source = MODEL.format(expression) + ESCAPING.format(str(tmp_path / "escaped"))
        with make.log(tmp_path, problems=(problem,)) as log:
            key = make.key(log.run, problem=problem.id)
            attempt = log.record_completion(key, make.answer(key, f"```python\n{source}```"))
            config = EvaluationConfig(shapes="tiny", measure=False, sandbox="none")
            log.record_evaluation(
                attempt, make.evaluation(problem=problem, source=source, speedup=speedup, config=config)
            )
        runs.append(log.run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(quick[-1]).parent))
    (row,) = json.loads(kernelwright("leaderboard", "--compare", *runs, "--json").stdout)["differences"]
    assert row["change"] == "apart (measured once)"
    done = kernelwright("leaderboard", "--compare", *runs, "--again", "--json")
    (row,) = json.loads(done.stdout)["differences"]
    assert row["change"] == "not comparable"
    assert row["why"].startswith("right, not timed and right, not timed when measured again")
    assert not (tmp_path / "escaped").exists(), "a log decides nothing about the sandbox"
