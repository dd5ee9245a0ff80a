"""What runs the commands of a build: whatever a candidate asks for is an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright.evaluator.building.build_script import LOG_BYTES, build, execute

SHELL = "/bin/sh"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _steps(files: dict[str, str], command: str = "cat a.cpp") -> list[dict[str, Any]]:
    compile_ = [SHELL, "-c", command]
    return build({"files": files, "compile": [compile_], "link": [SHELL, "-c", "echo linked"], "workers": 1})


def test_a_build_leaves_the_logs_of_its_steps() -> None:
    steps = _steps({"a.cpp": "text"})
    assert [(step["returncode"], step["log"]) for step in steps] == [(0, "text"), (0, "linked\n")]


@pytest.mark.parametrize("name", ["step0.log/x.h", "step0.log", "step1.log/x.h", "logs/x.h", "a.cpp.log/x"])
def test_no_file_of_a_candidate_lies_where_a_log_goes(name: str) -> None:
    steps = _steps({"a.cpp": "text", name: "kept"}, "ls -A | wc -l")
    assert [step["returncode"] for step in steps] == [0, 0]
    assert steps[0]["log"].strip() == "2"
    assert Path(name).read_text() == "kept"


@pytest.mark.parametrize("word", ["a\0b", "-DX=" + "a" * 140_000, "\ud8ff"], ids=["nul", "long", "surrogate"])
def test_words_no_command_line_can_hold_are_a_failed_step(word: str) -> None:
    step = execute([SHELL, "-c", "true", word])
    assert step["returncode"] == 1
    assert 0 < len(step["log"]) < 500


@pytest.mark.parametrize("name", ["a\0.cpp", "a.cpp/b.h", "x" * 300, "d/" * 1900 + "x"])
def test_files_that_cannot_be_written_are_a_failed_step(name: str) -> None:
    (step,) = _steps({"a.cpp": "", name: ""})
    assert (step["argv0"], step["returncode"]) == ("write", 1)


def test_a_missing_compiler_is_nobodys_failed_step() -> None:
    with pytest.raises(FileNotFoundError):
        execute(["/nowhere/g++"])


def test_a_flood_is_kept_up_to_a_limit() -> None:
    assert len(execute([SHELL, "-c", "yes | head -c 1000000; exit 3"])["log"]) == LOG_BYTES
