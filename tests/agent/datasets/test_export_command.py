"""`kernelwright export` and `kernelwright package` as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import Status
from tests.agent.cli.conftest import Command

if TYPE_CHECKING:
    from tests.agent.conftest import Make
    from tests.agent.datasets.conftest import Desk


def fill(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, license="MIT")
        desk.attempt(log, Status.WRONG_VALUES, sample=1)


def test_an_export_says_what_became_of_every_attempt(desk: Desk, kernelwright: Command) -> None:
    fill(desk)
    done = kernelwright("export", "preference", "--out", "data", "--test", "0", "--license", "MIT", "--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["rows"]) == (1, [])
    assert said["attempts"] == {
        "seen": 2,
        "used": 0,
        "left_out": {"filter: license": 1, "in no pair": 1},
    }
    done = kernelwright("export", "preference", "--out", "pairs", "--test", "0", "--status", "passed")
    assert done.exit_code == 1
    done = kernelwright("export", "preference", "--out", "more", "--test", "0")
    assert done.exit_code == 0 and "1 rows  preference, train" in done.stdout


def test_an_empty_test_split_is_said(desk: Desk, kernelwright: Command) -> None:
    fill(desk)
    for test, is_said in (("0.001", True), ("0", False), ("1", False)):
        done = kernelwright("export", "sft", "--out", f"data{test}", "--test", test)
        assert ("no problem fell there" in done.stdout) is is_said


def test_the_card_s_command_makes_the_same_rows_again(desk: Desk, kernelwright: Command) -> None:
    fill(desk)
    kernelwright(
        "export", "unpaired", "--out", "one", "--min-speedup", "1.2345678", "--dedup", "exact", "--seed", "3"
    )
    command = json.loads(Path("one/manifest.json").read_text())["command"].split()
    assert command[:3] == ["kernelwright", "export", "unpaired"]
    again = [word if word != "one" else "two" for word in command[1:]]
    assert kernelwright(*again).exit_code == 0
    assert sorted(path.name for path in Path("one/unpaired").iterdir()) == sorted(
        path.name for path in Path("two/unpaired").iterdir()
    )
    for path in Path("one/unpaired").iterdir():
        assert path.read_bytes() == (Path("two/unpaired") / path.name).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "nothing", "--out", "data"),
        ("export", "sft", "--out", "."),
        ("export", "sft", "--out", "data", "--status", "fine"),
        ("export", "sft", "--out", "data", "--run", "missing"),
        ("export", "sft", "--out", "data", "--backend", "fortran"),
        ("export", "sft", "--out", "data", "--decontaminate", "missing"),
        ("export", "sft", "--out", "data", "--track", "onw"),
        ("export", "sft", "--out", "data", "--license", "MTI"),
        ("export", "sft", "--out", "data", "--min-speedup", "nan"),
        ("export", "sft", "--out", "data", "--pairs", "0"),
        ("export", "kernelbench", "--out", "."),
        ("export", "kernelbench", "--out", "data", "--status", "PASSED"),
        ("export", "kernelbench", "--out", "data", "--problem", "add"),
        ("export", "flashinfer", "--out", "data", "--parquet"),
        ("package", "missing", "--out", "data"),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    desk: Desk, kernelwright: Command, arguments: tuple[str, ...]
) -> None:
    fill(desk)
    done = kernelwright(*arguments)
    assert done.exit_code == 2, done.output
    assert not Path("data").exists()


@pytest.mark.parametrize("format", ["kernelbench", "flashinfer"])
def test_runs_are_handed_to_other_projects(desk: Desk, kernelwright: Command, format: str) -> None:
    fill(desk)
    done = kernelwright("export", format, "--out", "data")
    assert done.exit_code == 0 and "2 candidates" in done.stdout
    wanted = "runs/*/eval_results.json" if format == "kernelbench" else "traces/*.jsonl"
    assert list(Path("data").glob(wanted))


def test_a_package_takes_references_from_the_runs(desk: Desk, make: Make, kernelwright: Command) -> None:
    problem = desk.reference("level1/01_add")
    with desk.log(problem) as log:
        source = "class ModelNew: ...\n"
        evaluation = make.evaluation(problem=problem, source=source)
        kernel = Workspace(desk.root).keep(source, evaluation, Provenance(run=log.run))
    done = kernelwright("package", kernel.id[:6], "--out", "package", "--name", "fast-things")
    assert done.exit_code == 0, done.output
    assert (Path("package") / "fast_things" / "__init__.py").is_file()
    (reference,) = Path("package").glob("fast_things/*/reference.py")
    assert reference.read_text() == problem.source
