"""A process's memory, opened by the driver and read by a referee."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import pytest

from kernelwright.evaluator.driver.processes.referee_process import RefereeProcess
from kernelwright.evaluator.driver.worker_service import WorkerService
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.driver_requests import OpenMemory
from kernelwright.evaluator.ipc.messages import Dispatcher, Done
from kernelwright.evaluator.referee.worker.driver_link import DriverLink


def _own_memory() -> BinaryIO | None:
    return Path("/proc/self/mem").open("rb", buffering=0)


def _opened(open_memory: Any) -> int | None:
    """The referee's descriptor, over a real channel."""
    ours, theirs = map(Channel, socket.socketpair())
    process = object.__new__(RefereeProcess)
    process._channel = ours
    handle: Any = SimpleNamespace(sandboxed=SimpleNamespace(open_memory=open_memory))
    workers = WorkerService(*[cast(Any, None)] * 6, {7: handle})
    dispatcher: Any = Dispatcher({OpenMemory: workers.open_memory})
    driver = threading.Thread(target=lambda: process.answer((Done,), dispatcher, wait_s=lambda: 10.0))
    driver.start()
    try:
        return DriverLink(theirs).open_memory(7)
    finally:
        theirs.send(Done().to_json())
        driver.join()
        ours.close()
        theirs.close()


def test_a_referee_reads_memory_by_itself_once_it_is_opened() -> None:
    held = ctypes.create_string_buffer(b"there", 6)
    memory = _opened(_own_memory)
    assert memory is not None
    assert os.pread(memory, 5, ctypes.addressof(held)) == b"there"
    held.value = b"later"
    assert os.pread(memory, 5, ctypes.addressof(held)) == b"later"
    with pytest.raises(OSError, match="Input/output"):
        os.pread(memory, 5, 1)
    os.close(memory)


def test_memory_that_may_not_be_read_is_not_opened() -> None:
    assert _opened(lambda: None) is None
