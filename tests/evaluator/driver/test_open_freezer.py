"""A referee freezes and thaws a process by itself once the driver has opened what does it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.evaluator.driver.processes.referee_process import Handover
from kernelwright.evaluator.driver.worker_service import WorkerService
from kernelwright.evaluator.ipc.driver_requests import FreezerOpened, OpenFreezer
from kernelwright.evaluator.referee.worker.driver_link import ProcessFreezer
from kernelwright.evaluator.sandbox.isolation.cgroups import GroupFreezer


def _handed_over(freezer: GroupFreezer | None, *, device: str = "cpu") -> Handover:
    handle: Any = SimpleNamespace(sandboxed=SimpleNamespace(freezer=lambda: freezer))
    launcher: Any = SimpleNamespace(device=device)
    workers = WorkerService(launcher, *[cast(Any, None)] * 5, {7: handle})
    return workers.open_freezer(OpenFreezer(id=7))


def _files(folder: Path, *, state: str) -> GroupFreezer:
    freezer = GroupFreezer(folder / "freeze", folder / "events", "1", "0", "frozen 1")
    freezer.control.write_text("0")
    freezer.state.write_text(state)
    return freezer


def _opened(handover: Handover) -> ProcessFreezer:
    assert isinstance(handover.answer, FreezerOpened) and handover.answer.opened
    control, state = (os.dup(end.fileno()) for end in handover.ends)
    for end in handover.ends:
        end.close()
    return ProcessFreezer(handover.answer, control, state)


def test_a_referee_writes_the_words_of_the_control_group(tmp_path: Path) -> None:
    freezer = _files(tmp_path, state="populated 1\nfrozen 1\n")
    process = _opened(_handed_over(freezer))
    assert process.freeze()
    assert freezer.control.read_text() == "1"
    assert process.thaw()
    assert freezer.control.read_text() == "0"
    process.close()


def test_tasks_that_do_not_stop_are_left_to_the_driver(tmp_path: Path) -> None:
    process = _opened(_handed_over(_files(tmp_path, state="populated 1\nfrozen 0\n")))
    began = time.monotonic()
    assert not process.freeze()
    assert time.monotonic() - began < 30
    process.close()


def test_the_freezer_of_an_ended_process_is_left_to_the_driver(tmp_path: Path) -> None:
    process = _opened(_handed_over(_files(tmp_path, state="frozen 1\n")))
    process.close()
    assert not process.freeze()
    assert not process.thaw()


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_nothing_is_opened_without_a_group_or_where_pauses_stop_processes_too(
    tmp_path: Path, device: str
) -> None:
    freezer = _files(tmp_path, state="frozen 1\n") if device != "cpu" else None
    handover = _handed_over(freezer, device=device)
    assert isinstance(handover.answer, FreezerOpened)
    assert not handover.answer.opened and not handover.ends


def test_nothing_is_opened_of_a_group_that_is_gone(tmp_path: Path) -> None:
    freezer = _files(tmp_path, state="frozen 1\n")
    freezer.state.unlink()
    handover = _handed_over(freezer)
    assert isinstance(handover.answer, FreezerOpened)
    assert not handover.answer.opened and not handover.ends
