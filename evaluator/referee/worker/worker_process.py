"""A process under the referee's command: a contestant, or the baseline, by the same protocol."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from kernelwright.evaluator.devices import Block, Device
from kernelwright.evaluator.devices.policy import MEMORY_WAIT_S
from kernelwright.evaluator.ipc.contestant_messages import Attach, Detach, Listening, Setup
from kernelwright.evaluator.ipc.driver_requests import Kill, Peek, Start
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.timed_run import CallRunner
from kernelwright.evaluator.referee.worker.worker_channel import WorkerChannel
from kernelwright.evaluator.schema.evaluation import Status


class WorkerProcess(WorkerChannel):
    """One sandboxed process and the memory shared with it.

    Whatever is asked of it raises `CandidateFailed` where the process failed, died, hung, or does not speak
    the protocol.
    """

    def __init__(self, driver: DriverLink, device: Device, start: Start, *, compile_s: float = 0.0) -> None:
        """Start a process; `device` is where shared memory lies.

        `compile_s` is what a model's first call may take on top, where that call compiles its kernels.
        """
        started, channel = driver.start(start)
        super().__init__(channel, driver, started.id)
        self.device = device
        """Where shared memory lies."""
        self._is_set_up = started.set_up
        on_host = device.torch_device.type == "cpu"
        self.runner = CallRunner(self, role=start.role, compile_s=compile_s, owns_late=on_host)
        self.role = start.role
        self.compile_s = compile_s
        if on_host:
            self._freezer = driver.open_freezer(started.id)
        self.blocks: list[Block] = []
        self._memory: int | None = None
        """A descriptor of its memory, once that was looked at."""

    def begin_setup(self, request: Setup) -> Callable[[], float]:
        """Once it has started, begin to choose device, threads and precision flags; unless that was done.

        Returns what waits for that, and tells the seconds waited for the device, which opening it on a GPU
        would disturb.
        """
        if self._is_set_up:
            return lambda: 0.0
        self.read(self.receive(policy.START_S), Listening)
        waited_s = self._driver.ensure_held() if request.device.startswith("cuda") else 0.0
        answer = self.post(request, policy.START_S)

        def finish() -> float:
            answer()
            return waited_s

        return finish

    def attach(self, sizes: list[int], *, wait_s: float = MEMORY_WAIT_S) -> list[int]:
        """Allocate blocks for this process alone; returns their indices.

        Raises:
            torch.OutOfMemoryError: the device is full, and stays so for `wait_s`.
        """
        blocks: list[Block] = []
        try:
            for size in sizes:
                blocks.append(self.device.allocate(size, wait_s))
        except torch.OutOfMemoryError:
            for block in blocks:
                block.close()
            raise
        return self._share(blocks)

    def attach_word(self) -> int:
        """Allocate a word that this process's streams can wait for; returns its block's index.

        Where the process cannot register host memory, it is a word of the device's.

        Raises:
            torch.OutOfMemoryError: the device is full.
        """
        word = self.device.allocate_word()
        try:
            return self._share([word])[0]
        except CandidateFailed:
            if self.lost or not word.fds():
                raise
        self.forget_failure()
        self.blocks.remove(word)
        word.close()
        return self.attach([1], wait_s=0.0)[0]

    def _share(self, blocks: list[Block]) -> list[int]:
        descriptors = [block.descriptor() | {"fds": len(block.fds())} for block in blocks]
        first = len(self.blocks)
        self.blocks += blocks
        fds = [fd for block in blocks for fd in block.fds()]
        self.ask(Attach(blocks=descriptors), policy.START_S, fds)
        return list(range(first, len(self.blocks)))

    def detach(self, layout: str, blocks: list[int]) -> None:
        """Free blocks that only a layout of this process lies in."""
        try:
            self.ask(Detach(layout=layout, blocks=blocks), policy.START_S)
        finally:
            for block in blocks:
                self.blocks[block].close()

    def peek(self, places: list[tuple[int, int]]) -> list[bytes] | None:
        """Read memory at addresses of the process, so many bytes each; None where the system forbids it.

        Where no memory is mapped, nothing is read.

        Raises:
            CandidateFailed: one of them lies in memory that may be mapped more than once, or this process
                alone forbids to read it.
        """
        peeked = self._driver.ask(Peek(id=self.id, places=places))
        if peeked.shared:
            raise CandidateFailed(
                Status.WRONG_VALUES,
                "an output is not memory of its own: it lies in a file or in shared memory, which may be "
                "mapped in several places; return tensors that torch or malloc allocated",
            )
        found = peeked.found
        self._require_readable(found is not None)
        return None if found is None else [bytes.fromhex(text) for text in found]

    def open_memory(self) -> None:
        """Get ready to `look`, unless the system forbids it.

        Raises:
            CandidateFailed: this process alone forbids it.
        """
        if self._memory is None:
            self._memory = self._driver.open_memory(self.id)
        self._require_readable(self._memory is not None)

    def _require_readable(self, is_readable: bool) -> None:
        """Where the memory of one process could be read, that of all can: the system allows it."""
        if self._driver.reads_memory and not is_readable:
            raise CandidateFailed(Status.TAMPERED, "the process does not let its memory be looked at")
        self._driver.reads_memory |= is_readable

    def look(self, places: list[tuple[int, int]]) -> list[bytes] | None:
        """Read memory as `peek` does, but at once: without the driver, whatever the process is doing."""
        if self._memory is None:
            return None
        found = []
        for address, size in places:
            try:
                found.append(os.pread(self._memory, size, address))
            except (OSError, OverflowError):
                found.append(b"")
        return found

    def close(self) -> None:
        """Kill the process with everything it started and free what was shared with it."""
        self._channel.close()
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None
        if self._freezer is not None:
            self._freezer.close()
            self._freezer = None
        self._driver.ask(Kill(id=self.id, ended=False))
        while self.blocks:
            self.blocks.pop().close()
