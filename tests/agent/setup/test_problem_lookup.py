"""Problems are found by file, folder, id, level, or an unmistakable part."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.setup.problem_lookup import (
    are_meant_for_gpus,
    installed_problems,
    one_problem,
    read_problems,
)
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.evaluator import ProblemError

SOURCE = "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"


def test_our_own_problems_are_found_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert installed_problems().is_dir()
    assert one_problem("level1/01_square_matmul") == one_problem("square_matmul")
    assert {problem.id.partition("/")[0] for problem in read_problems(["level1"])} == {"level1"}
    assert len(read_problems(["all"])) >= 24


def test_files_and_folders_are_read(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.py").write_text(f"# {name}\n{SOURCE}")
    assert [problem.id for problem in read_problems([str(tmp_path)])] == ["a", "b"]
    assert [problem.id for problem in read_problems([str(tmp_path / "b.py"), str(tmp_path)])] == ["b", "a"]


def test_a_name_that_fits_several_is_refused_with_all_of_them() -> None:
    with pytest.raises(UsageError, match=r"02_transposed_a_matmul.*03_transposed_b_matmul"):
        one_problem("transposed")


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="01_square_matmul"):
        one_problem("square_matmull")


@pytest.mark.parametrize("name", ["nowhere.py", "nowhere/", "zzz"])
def test_what_is_not_there_is_named(name: str) -> None:
    with pytest.raises((UsageError, ProblemError), match=name):
        one_problem(name)


def test_two_problems_with_one_id_are_refused(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"# {folder}\n{SOURCE}")
    with pytest.raises(ProblemError, match="same"):
        read_problems([str(tmp_path)])


def test_a_folder_is_not_one_problem(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(f"# {name}\n{SOURCE}")
    with pytest.raises(UsageError, match="2 problems"):
        one_problem(str(tmp_path))


@pytest.mark.parametrize(
    ("backends", "shapes", "expected"),
    [
        (["cpp"], None, True),
        (["cuda"], None, False),
        (["cuda", "cpp"], None, True),
        (["cpp"], "small", False),
    ],
)
def test_sizes_made_for_a_gpu_are_noticed_before_a_cpu_gets_them(
    backends: list[str], shapes: str | None, expected: bool
) -> None:
    assert are_meant_for_gpus([one_problem("square_matmul")], backends, shapes) is expected
