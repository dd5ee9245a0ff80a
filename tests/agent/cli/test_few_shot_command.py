"""Kept kernels in prompts: chosen when a run begins, the same after a resume, recorded with every attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.setup.problem_lookup import installed_problems
from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import read_problem
from tests.agent.cli.conftest import Command, Quick


@pytest.fixture
def kept(tmp_path: Path, make: object) -> str:
    """The id of a kept kernel of `13_row_mean`."""
    problem = read_problem(installed_problems() / "level1" / "13_row_mean.py")
    source = make.code("a mean")  # type: ignore[attr-defined]  # a fixture's class
    evaluation = make.evaluation(problem=problem, source=source)  # type: ignore[attr-defined]
    return Workspace(tmp_path).keep(source, evaluation, Provenance()).id


def test_a_prompt_shows_the_kernel_of_a_like_problem_and_the_problems_sizes(
    kernelwright: Command, tmp_path: Path, kept: str
) -> None:
    place = ("--cache", str(tmp_path / "cache"), "-b", "cpp", "--few-shot", "2")
    other = kernelwright("prompt", "12_column_sum", *place)
    assert other.exit_code == 0, other.output
    assert "- Inputs: x: float32[16, 4096, 1024]." in other.stdout
    assert "outputs written once are 269 MB" in other.stdout
    assert "a mean" not in other.stdout, "a sum is no mean"
    own = kernelwright("prompt", "13_row_mean", *place)
    assert "a mean" not in own.stdout, "a problem's own kernel is not shown"


def test_a_run_records_what_it_showed_and_refuses_to_go_on_without(
    kernelwright: Command, tmp_path: Path, quick: Quick, kept: str
) -> None:
    mean = (installed_problems() / "level1" / "13_row_mean.py").read_text()
    (tmp_path / "mean.py").write_text(mean.replace("32768", "1024").replace('"small"', '"tiny"'))
    (tmp_path / "replies" / "mean" / "cpp").mkdir(parents=True)
    (tmp_path / "replies" / "mean" / "cpp" / "00.md").write_text("No code.")
    arguments = (str(tmp_path / "mean.py"), *quick[1:], "--turns", "1", "--few-shot", "1", "--quiet")
    result = kernelwright("run", *arguments)
    assert result.exit_code == 1, result.output
    archive = Workspace(tmp_path).archive()
    (attempt,) = archive.attempts()
    assert attempt.completion.exemplars == (kept,)
    sent = archive.messages(attempt.completion)
    assert "For `level1/13_row_mean`, 2.00 times the speed of eager PyTorch" in sent[1].content
    for path in (tmp_path / "generated").rglob("*"):
        if path.is_file():
            path.unlink()
    gone = kernelwright("run", "--resume", "last")
    assert (gone.exit_code, f"no saved kernel '{kept}'" in gone.stderr) == (2, True), gone.output
