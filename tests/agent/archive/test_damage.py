"""Damaged lines and kernels raise, or cost only themselves where somebody is told of them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive import Archive, ArchiveError, resume_run
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.workspace import Provenance, Workspace

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def damage(path: Path, change: Callable[[list[bytes]], None]) -> None:
    lines = path.read_bytes().split(b"\n")
    change(lines)
    path.write_bytes(b"\n".join(lines))


def cut(*numbers: int) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        for number in numbers:
            lines[number - 1] = lines[number - 1][: len(lines[number - 1]) // 2]

    return change


@pytest.fixture
def log(make: Make, tmp_path: Path) -> Path:
    """A log of two judged attempts: its start, then a reply and a verdict of each."""
    with make.log(tmp_path) as log:
        make.attempt(log)
        make.attempt(log, sample=1)
    return log.folder / "attempts.jsonl"


@pytest.mark.parametrize(
    ("numbers", "left"),
    [
        ((1,), {0: True, 1: True}),
        ((2,), {1: True}),
        ((3,), {0: False, 1: True}),
        ((2, 5), {1: False}),
    ],
)
def test_a_damaged_line_costs_only_itself_and_is_said(
    log: Path, numbers: tuple[int, ...], left: dict[int, bool]
) -> None:
    damage(log, cut(*numbers))
    told: list[str] = []
    found = list(Archive(log.parents[1], told.append).attempts())
    assert {attempt.key.sample: attempt.passed for attempt in found} == left
    (line,) = told
    assert f"line {numbers[0]} is damaged" in line
    assert ("; and 1 more" in line) == (len(numbers) > 1)
    with pytest.raises(ArchiveError, match="is damaged"):
        list(Archive(log.parents[1]).attempts())


def test_a_run_whose_beginning_is_damaged_has_no_problems(log: Path) -> None:
    told: list[str] = []
    archive = Archive(log.parents[1], told.append)
    assert list(archive.problems_used(log.parent.name)) == ["level1/01_add"]
    damage(log, cut(1))
    assert archive.problems_used(log.parent.name) == {}
    assert len(told) == 1
    with pytest.raises(ArchiveError):
        Archive(log.parents[1]).problems_used(log.parent.name)


@pytest.mark.parametrize("name", ["kernel.py", "score.json"])
def test_a_damaged_kernel_costs_only_itself_and_is_said(make: Make, tmp_path: Path, name: str) -> None:
    place = Workspace(tmp_path)
    kept = [
        place.keep(make.code(number), make.evaluation(source=make.code(number)), Provenance())
        for number in range(2)
    ]
    (kept[0].folder / name).write_bytes(b"\xff")
    told: list[Path] = []
    assert [kernel.id for kernel in place.kernels(lambda folder, _: told.append(folder))] == [kept[1].id]
    assert told == [kept[0].folder]
    with pytest.raises(ArchiveError):
        list(place.kernels())


def test_a_copy_beside_a_run_counts_nothing_twice(log: Path) -> None:
    folder = log.parent
    shutil.copytree(folder, folder.with_name("backup"))
    told: list[str] = []
    assert len(list(Archive(folder.parent, told.append).attempts())) == 2
    (line,) = told
    assert f"backup holds run {folder.name}; rename it so, or move it out of {folder.parent}" in line
    with pytest.raises(ArchiveError, match="backup holds run"):
        list(Archive(folder.parent).attempts())


def test_a_renamed_run_is_not_gone_on_with_as_if_nothing_had_been_asked(log: Path) -> None:
    log.parent.rename(log.parent.with_name("mine"))
    with pytest.raises(ArchiveError, match=f"mine holds run {log.parent.name}; rename it so"):
        resume_run(Archive(log.parents[1]), "mine")


def test_a_reply_that_stands_in_a_log_twice_counts_once(log: Path) -> None:
    damage(log, lambda lines: lines.insert(2, lines[1]))
    archive = Archive(log.parents[1])
    assert len(list(archive.attempts())) == 2
    with resume_run(archive, sync=False) as run:
        assert run.index.spent().tokens == 200
        assert run.index.spent().cost_usd == Decimal("0.02")


def test_a_damaged_time_costs_no_run(log: Path) -> None:
    damage(log, lambda lines: lines.__setitem__(0, re.sub(rb'"at":"2', b'"at":"Z', lines[0])))
    with resume_run(Archive(log.parents[1]), sync=False) as run:
        assert run.index.spent().attempts == 2


def test_a_pipe_in_the_place_of_a_log_or_a_text_keeps_nobody_waiting(log: Path) -> None:
    archive, beside = Archive(log.parents[1]), log.parents[1] / "20260101-000000-000-abcd"
    beside.mkdir()
    os.mkfifo(beside / "attempts.jsonl")
    assert archive.runs() == [log.parent.name]
    (attempt, *_) = archive.attempts()
    text = TextStore(log.parent / "texts").put("x" * 2000)
    assert not isinstance(text, str)
    path = TextStore(log.parent / "texts").path(text)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArchiveError, match="is no regular file"):
        archive.text(attempt.key.run, text)
