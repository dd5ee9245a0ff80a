"""A package of kernels installs, loads and tests itself."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.interop.package_writer import write_package
from kernelwright.agent.records.atomic_folder import UnusableExport
from kernelwright.agent.workspace import Provenance, Workspace
from kernelwright.evaluator import Problem, problem_from_source

if TYPE_CHECKING:
    from kernelwright.agent.workspace import Kernel
    from tests.agent.conftest import Make

REFERENCE = """import torch

SIZE = 4096
SHAPES = {"tiny": {"SIZE": 3}}


class Model(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(rows, SIZE))

    def forward(self, x):
        return x * self.weight + 1


def get_inputs():
    return [torch.randn(2, SIZE)]


def get_init_inputs():
    return [2]
"""
KERNEL = """import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, {size}))

    def forward(self, x):
        return 1 + self.weight * x
"""


def kept(folder: Path, make: Make, source: str) -> tuple[Kernel, Problem]:
    problem = problem_from_source(REFERENCE, "level1/01_scale_add")
    config = {"shapes": "tiny"}
    evaluation = make.evaluation(problem=problem, source=source)
    evaluation = evaluation.model_copy(update={"config": evaluation.config.model_copy(update=config)})
    provenance = Provenance(model="model-a", license="MIT")
    return Workspace(folder).keep(source, evaluation, provenance), problem


def write(folder: Path, make: Make, source: str) -> list[str]:
    kernel, problem = kept(folder, make, source)
    return write_package([kernel], {problem.sha: problem}, "my-kernels", folder / "package")


def test_a_package_holds_source_reference_score_and_a_test(tmp_path: Path, make: Make) -> None:
    (name,) = write(tmp_path, make, "class ModelNew:\n    answer = 42\n")
    script = f"""
import my_kernels
try:
    my_kernels.load({name!r})
except PermissionError as refusal:
    assert "is foreign code: read it" in str(refusal)
else:
    raise AssertionError("loaded without trust")
assert my_kernels.load({name!r}, trust=True).answer == 42
assert "model model-a" in my_kernels.screening({name!r})
assert my_kernels.score({name!r})["provenance"]["license"] == "MIT"
assert my_kernels.KERNELS[{name!r}]["problem"] == "level1/01_scale_add"
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "package", check=True, timeout=60)
    module = tmp_path / "package" / "my_kernels" / name
    assert (module / "reference.py").read_text() == REFERENCE
    project = tomllib.loads((tmp_path / "package" / "pyproject.toml").read_text())["project"]
    assert (project["name"], "torch" in project["dependencies"]) == ("my-kernels", True)
    assert "2.00× (1.96–2.04, against eager)" in (tmp_path / "package" / "README.md").read_text()


def test_a_package_without_its_reference_or_into_a_full_folder_is_refused(tmp_path: Path, make: Make) -> None:
    kernel, problem = kept(tmp_path, make, "class ModelNew: ...\n")
    with pytest.raises(UnusableExport, match="the reference of kernel"):
        write_package([kernel], {}, "a", tmp_path / "package")
    with pytest.raises(UnusableExport, match="not empty"):
        write_package([kernel], {problem.sha: problem}, "a", tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("1 a", "no package name"),
        ("", "no package name"),
        ("1st", "no package name"),
        ("kernels-", "no package name"),
        ("größe", "no package name"),
        ("class", "word of Python's own"),
        ("torch", "hide another package"),
        ("Triton", "hide another package"),
        ("json", "hide another package"),
        ("tests", "hide another package"),
    ],
)
def test_a_name_that_cannot_be_imported_or_hides_another_is_refused(
    tmp_path: Path, make: Make, name: str, words: str
) -> None:
    kernel, problem = kept(tmp_path, make, "class ModelNew: ...\n")
    with pytest.raises(UnusableExport, match=words):
        write_package([kernel], {problem.sha: problem}, name, tmp_path / "package")
    assert not (tmp_path / "package").exists()


def test_a_problem_whose_name_is_code_runs_nothing_in_a_package(tmp_path: Path, make: Make) -> None:
    hostile = 'level1/x"""\nraise SystemExit("ran")\n"""|<script>`@NAME@`' + "y" * 300
    problem = problem_from_source(REFERENCE, hostile)
    source = "class ModelNew: ..."
    evaluation = make.evaluation(problem=problem, source=source)
    made = make.evaluation(problem=problem_from_source(REFERENCE, "level1/x"), source=source)
    kernel = Workspace(tmp_path).keep(source, made, Provenance(model="a\n| b | <img> |"))
    record = kernel.record.model_copy(update={"problem": hostile, "problem_sha": evaluation.problem_sha})
    kernel = replace(kernel, record=record)
    (name,) = write_package([kernel], {problem.sha: problem}, "a-b", tmp_path / "package")
    assert len(name) < 100
    script = f"import a_b; assert a_b.load({name!r}, trust=True).__name__ == 'ModelNew'"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "package", check=True, timeout=60)
    rows = [line for line in (tmp_path / "package" / "README.md").read_text().splitlines() if name in line]
    assert not any(mark in row for row in rows if row.startswith("|") for mark in ("<", "`", "@"))
    assert [row.count("|") for row in rows if row.startswith("|")] == [6]


def test_kernels_of_problems_with_one_last_name_are_all_there(tmp_path: Path, make: Make) -> None:
    place, source = Workspace(tmp_path), "class ModelNew: ...\n"
    problems = [
        problem_from_source(f"{REFERENCE}# {number}\n", name)
        for number, name in enumerate(("level1/01_relu", "mine/01_relu", "mine/01-relu"))
    ]
    kernels = [
        place.keep(source, make.evaluation(problem=problem, source=source), Provenance())
        for problem in problems
    ]
    references = {problem.sha: problem for problem in problems}
    made = write_package([*kernels, kernels[0]], references, "mine", tmp_path / "package")
    assert len(set(made)) == 3
    for name, problem in zip(made, problems, strict=True):
        assert (tmp_path / "package" / "mine" / name / "reference.py").read_text() == problem.source


def test_scores_of_two_policies_share_no_table_and_a_contended_one_is_marked(
    tmp_path: Path, make: Make
) -> None:
    place, problem = Workspace(tmp_path), problem_from_source(REFERENCE, "level1/01_scale_add")
    sources = [f"class ModelNew: {number}\n" for number in range(3)]
    busy = make.measurement(4.0).model_copy(update={"contended": True})
    changes: list[dict[str, Any]] = [{}, {"device": "Other CPU"}, {"speedup": 4.0, "measurement": busy}]
    kernels = [
        place.keep(source, make.evaluation(problem=problem, source=source, **change), Provenance())
        for source, change in zip(sources, changes, strict=True)
    ]
    write_package(kernels, {problem.sha: problem}, "mine", tmp_path / "package")
    text = (tmp_path / "package" / "README.md").read_text()
    first, other = text.split("Policy ")[1:]
    assert "Test CPU" in first and "4.00×‡" in first and first.count("\n| scale") == 0
    assert "Other CPU" in other and other.count("×") == 1
    assert "‡: not to be compared: contended: other work disturbed the measurement" in text
    assert "speedup" not in (tmp_path / "package" / "mine" / "__init__.py").read_text()


@pytest.mark.slow
def test_its_own_test_passes_for_a_right_kernel_and_fails_for_a_wrong_one(tmp_path: Path, make: Make) -> None:
    right = KERNEL.format(size=3)
    for name, source in (("right", right), ("wrong", right.replace("1 +", "2 +"))):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, make, source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
        place = folder / "package"
        environment = {"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        environment["TRUST_KERNELS"] = "1"
        done = subprocess.run(
            command, cwd=place, env=environment, check=False, capture_output=True, timeout=300
        )
        assert done.returncode == (0 if name == "right" else 1), done.stdout.decode()
