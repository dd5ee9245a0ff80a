"""`runs`, `attempts`, `kernels` and `cache`: the same verbs, unique prefixes, and nothing removed unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import Status
from tests.agent.cli.conftest import Command, Quick

if TYPE_CHECKING:
    from tests.agent.conftest import Make


@pytest.fixture
def run(kernelwright: Command, tmp_path: Path, quick: Quick) -> str:
    """A run with an attempt that failed and one that passed."""
    assert kernelwright("run", *quick, "--quiet").exit_code == 0
    (made,) = Workspace(tmp_path).archive().runs()
    return made


def test_a_run_its_failed_attempt_and_its_kernel_can_be_looked_at_and_removed(
    kernelwright: Command, tmp_path: Path, run: str
) -> None:
    (listed,) = json.loads(kernelwright("runs", "list", "--json").stdout)
    assert (listed["run"], listed["replies"], listed["passed"], listed["end"]) == (run, 2, 1, "complete")
    assert listed["statuses"] == {"WRONG_VALUES": 1, "PASSED": 1}
    assert run in kernelwright("runs", "list").stdout
    assert "WRONG_VALUES 1" in kernelwright("runs", "show", "last").stdout

    failed = json.loads(kernelwright("attempts", "list", "--status", "wrong_values", "--json").stdout)
    assert [row["turn"] for row in failed] == [0]
    name = failed[0]["attempt"][:10]
    shown = json.loads(kernelwright("attempts", "show", name, "--json").stdout)
    assert (shown["stage"], shown["evaluation"]["status"]) == ("verify", "WRONG_VALUES")
    assert "x * 2" in shown["code"] and shown["feedback"] and shown["conversation"][-1]["role"] == "assistant"
    text = kernelwright("attempts", "show", name).stdout
    for title in ("--- user", "--- code", "--- feedback", "WRONG_VALUES"):
        assert title in text

    (kernel,) = json.loads(kernelwright("kernels", "list", "--json").stdout)
    refused = kernelwright("kernels", "rm", kernel["kernel"][:8])
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert kernelwright("kernels", "rm", kernel["kernel"][:8], "--yes").exit_code == 0
    assert json.loads(kernelwright("kernels", "list", "--json").stdout) == []
    assert kernelwright("runs", "rm", run[:12], "--yes").exit_code == 0
    assert "no runs" in kernelwright("runs", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("runs", "show", "nosuch"), "no run 'nosuch'"),
        (("attempts", "show", "nosuch"), "no attempt 'nosuch'"),
        (("kernels", "show", "nosuch"), "no saved kernel 'nosuch'"),
        (("cache", "rm", "build", "--yes"), "no kind of cache 'build'; did you mean builds"),
    ],
)
def test_an_unknown_name_is_one_line(kernelwright: Command, arguments: tuple[str, ...], words: str) -> None:
    result = kernelwright(*arguments)
    assert (result.exit_code, words in result.stderr, result.stderr.count("\n")) == (2, True, 1)


def test_kernels_are_filtered_and_say_against_what(kernelwright: Command, make: Make, tmp_path: Path) -> None:
    for number, model in enumerate(("one", "two")):
        source = make.code(number)
        Workspace(tmp_path).keep(source, make.evaluation(source=source), Provenance(model=model))
    (only,) = json.loads(kernelwright("kernels", "list", "--model", "two", "--json").stdout)
    assert only["model"] == "two" and only["against"] and only["interval"]
    fast = kernelwright("kernels", "list", "--min-speedup", "1000", "--json")
    assert json.loads(fast.stdout) == []
    assert "against" in kernelwright("kernels", "list").stdout


def test_the_cache_is_shown_by_kind_and_removed(kernelwright: Command, tmp_path: Path) -> None:
    (tmp_path / "cache" / "builds").mkdir(parents=True)
    (tmp_path / "cache" / "builds" / "x").write_bytes(b"0" * 1000)
    cache = ("--cache", str(tmp_path / "cache"))
    assert json.loads(kernelwright("cache", "show", "--json", *cache).stdout)["bytes"] == {"builds": 1000}
    assert kernelwright("cache", "rm", "all", "--yes", *cache).exit_code == 0
    assert not (tmp_path / "cache" / "builds").exists()


def test_names_are_completed(kernelwright: Command, run: str) -> None:
    from kernelwright.agent.cli.terminal import completion

    assert completion.runs(run[:5]) == [run]
    assert len(completion.attempts("")) == 2 and len(completion.kernels("")) == 1
    assert "09_softmax" in completion.problems("09") and "refine" in completion.strategies("re")
    assert "cpp" in completion.backends("") and "replay" in completion.providers("re")
    assert "sft" in completion.formats("")


def test_attempts_of_two_policies_share_no_table_and_a_contended_one_is_marked(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    busy = make.measurement(9.0).model_copy(update={"contended": True})
    with make.log(tmp_path) as log:
        make.attempt(log)
        make.attempt(log, Status.COMPILE_ERROR, sample=1)
        make.attempt(log, None, sample=2)
        for sample, changes in ((3, {"device": "Other CPU"}), (4, {"measurement": busy, "speedup": 9.0})):
            attempt = make.attempt(log, None, sample=sample)
            source = log.archive.code(attempt)
            log.record_evaluation(attempt, make.evaluation(source=source, **changes))  # type: ignore[arg-type]
    text = kernelwright("attempts", "list").stdout
    first, *others = text.split("\n\n")
    assert "Test CPU" in first and "COMPILE_ERROR" in first and "9.00×‡" in first and "2.00×" in first
    assert sorted("Other CPU" in table for table in others) == [False, True] and "not evaluated" in text
    assert "‡: measured, but not to be compared" in text
    rows = json.loads(kernelwright("attempts", "list", "--json").stdout)
    assert [row["terms"] and row["terms"].split(" · ")[0] for row in rows] == [
        *("Test CPU", "unknown", None, "Other CPU", "Test CPU")
    ]
    assert len({row["policy"] for row in rows}) == 4
    assert [bool(row["unfit"]) for row in rows] == [False, False, False, False, True]
    shown = kernelwright("attempts", "show", rows[-1]["attempt"]).stdout
    assert "not to be compared: contended" in " ".join(shown.replace("│", " ").split())
