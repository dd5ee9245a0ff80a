"""A kept kernel in one's own program: found by its id, and only as it was scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright.evaluator import Candidate, ConfigError, load_kernel

SOURCE = "class ModelNew:\n    answer = 42\n"


def keep(workspace: Path, name: str, source: str = SOURCE) -> Path:
    folder = workspace / "generated" / "cpp" / "01_add" / name
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(source)
    sha = Candidate(source=source, backend="cpp").sha
    (folder / "score.json").write_text(json.dumps({"backend": "cpp", "sha": sha}))
    return folder


def test_a_kernel_is_loaded_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    keep(tmp_path, "abc123")
    keep(tmp_path, "abd456", "class ModelNew: answer = 43\n")
    assert load_kernel("abc", tmp_path).answer == 42
    assert load_kernel("abd456", tmp_path).answer == 43
    assert load_kernel("abc", tmp_path) is load_kernel("abc123", str(tmp_path))


def test_unknown_and_doubtful_names_say_what_there_is(tmp_path: Path) -> None:
    keep(tmp_path, "abc123")
    keep(tmp_path, "abd456")
    with pytest.raises(ConfigError, match="could be"):
        load_kernel("ab", tmp_path)
    with pytest.raises(ConfigError, match="it holds 2"):
        load_kernel("x", tmp_path)


def test_a_changed_source_is_refused_and_never_run(tmp_path: Path) -> None:
    folder = keep(tmp_path, "abc123")
    (folder / "kernel.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="not the source that was scored"):
        load_kernel("abc", tmp_path)


def test_a_kernel_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    keep(tmp_path, "abc123", "import no_such_module\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            load_kernel("abc", tmp_path)
