"""The backends table: what a backend needs, and how its absence is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    BACKENDS,
    Candidate,
    ConfigError,
    Evaluator,
    MachineError,
    check_packages,
    read_problem,
)
from kernelwright.evaluator.backends.registry import find_backend

PROBLEM = Path(__file__).parents[3] / "reference_problems" / "level1" / "11_rms_norm.py"


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the optional packages can be found."""
    for backend in BACKENDS.values():
        for package in backend.requires:
            monkeypatch.delitem(sys.modules, package.module, raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})


@pytest.mark.parametrize(
    ("backend", "package"),
    [("triton", "triton"), ("tilelang", "tilelang"), ("cute", "nvidia-cutlass-dsl")],
)
def test_a_missing_package_is_one_line_before_anything_starts(
    nothing_installed: None, backend: str, package: str, tmp_path: Path
) -> None:
    line = f"backend {backend} needs the package {package}: pip install {package}"
    with pytest.raises(MachineError) as caught:
        check_packages(backend)
    assert str(caught.value) == line
    candidate = Candidate(source="class ModelNew: pass", backend=backend)
    with Evaluator(cache=tmp_path) as evaluator, pytest.raises(MachineError, match=line):
        evaluator.evaluate(read_problem(PROBLEM), candidate)


def test_an_installed_package_is_found_without_being_imported(
    nothing_installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tilelang").mkdir()
    (tmp_path / "tilelang" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    check_packages("tilelang")


def test_backends_that_need_nothing_and_unknown_ones(nothing_installed: None) -> None:
    check_packages("cuda")
    check_packages("cpp")
    with pytest.raises(
        ConfigError, match="unknown backend 'fortran'; known: cpp, cuda, cute, tilelang, triton"
    ):
        check_packages("fortran")


def test_only_backends_whose_kernels_are_functions_compile_when_called() -> None:
    compiling = {name for name in BACKENDS if find_backend(name).compiles_when_called}
    assert compiling == {"triton", "tilelang", "cute"}
