"""Starts the processes a referee asks for: ordinary ones, watched ones, and plain ones ahead of time."""

from __future__ import annotations

import itertools
import shutil
import socket
from dataclasses import dataclass

from kernelwright.evaluator.analysis.ncu import COUNTERS, NcuRun
from kernelwright.evaluator.analysis.sanitizers import (
    SanitizerRun,
    Sanitizers,
    find_cuda_tool,
    find_sanitizers,
)
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.driver.built_libraries import BuiltLibraries
from kernelwright.evaluator.driver.policy import START_S
from kernelwright.evaluator.driver.processes.pausable_processes import PausableProcesses, can_pause_on
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage, connected, preloaded
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.contestant_messages import Listening, Setup
from kernelwright.evaluator.ipc.messages import Done, decode
from kernelwright.evaluator.sandbox import ExitReport, Launcher, SandboxedProcess
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import MachineError

_SERIAL = itertools.count(1)


ToolWrapper = SanitizerRun | NcuRun
"""A tool around one process."""


@dataclass(slots=True)
class WorkerHandle:
    """A contestant or baseline, as the driver knows it; at first it waits for a message."""

    number: int
    sandboxed: SandboxedProcess
    channel_end: socket.socket
    """Our end of its channel, until it is handed over."""
    role: str
    watch: ToolWrapper | None
    supply: BuiltLibraries
    is_set_up: bool = False
    """True once it has opened its device."""

    def end(self) -> ExitReport:
        """Kill it with everything it started, and remove what was built for it."""
        report = self.sandboxed.kill()
        shutil.rmtree(self.supply.folder, ignore_errors=True)
        return report

    def discard(self) -> None:
        """End it unused."""
        self.channel_end.close()
        if self.watch is not None:
            self.watch.close()
        self.end()


@dataclass(frozen=True, slots=True)
class ProcessLauncher:
    """Starts processes of one kind: same device, same bounds."""

    launcher: Launcher
    image: RuntimeImage
    builder: Builder
    config: EvaluationConfig
    device: str
    threads: int

    @property
    def kind(self) -> str:
        """The same for launchers whose processes may stand in for each other."""
        return f"{self.device} {self.threads} {self.config.math} {self.config.limits.model_dump_json()}"

    def start(self, role: str, *, threads: int | None = None, tool: str | None = None) -> WorkerHandle:
        """Start a process that imports torch and waits, without foreign code; may raise MachineError."""
        number = next(_SERIAL)
        libraries = self.image.built_folder(str(number))
        policy = self.image.contestant_policy(
            self.config, device=self.device, libraries=libraries, threads=threads or self.threads
        )
        watch = self._watch(tool) if tool else None

        def started(fd: int) -> SandboxedProcess:
            command, bounds, fds = self.image.command("contestant", fd), policy, [fd]
            if watch is not None:
                command, bounds, fds = watch.command(command), watch.policy(policy), [fd, watch.log]
            preload = () if watch else preloaded(self.device.partition(":")[0])
            kept = self.config.limits.output_kib << 10
            return self.launcher.start(command, bounds, fds=tuple(fds), output_bytes=kept, preload=preload)

        ours, sandboxed = connected(started)
        return WorkerHandle(
            number, sandboxed, ours, role, watch, BuiltLibraries(libraries, seen=self.image.seen)
        )

    def sanitizers(self) -> Sanitizers:
        """The sanitizers for candidates of this device."""
        return find_sanitizers(self.builder.toolchain.cxx.path if self.device == "cpu" else None)

    def _watch(self, tool: str) -> ToolWrapper:
        if tool != COUNTERS:
            return SanitizerRun(self.sanitizers(), tool)
        ncu = find_cuda_tool(COUNTERS)
        if ncu is None:
            raise MachineError("ncu is not installed; it is part of the CUDA toolkit")
        return NcuRun(ncu)

    def start_ahead(self) -> WorkerHandle:
        """Start a plain process and let it open its device, while nobody has the device alone.

        Raises MachineError without a sandbox, and ChannelError where the process does not get ready.
        """
        started: list[SandboxedProcess] = []
        pauses = PausableProcesses(lambda: started) if can_pause_on(self.device) else None
        lock = DeviceLock(self.device, pausable=pauses)
        try:
            if self.device == "cpu":
                lock.share()  # importing torch takes a core
            worker = self.start("candidate")
            started.append(worker.sandboxed)
            try:
                channel = Channel(worker.channel_end)
                decode(channel.receive(START_S), Listening)
                lock.share()
                kind, math = self.device.partition(":")[0], self.config.math.value
                setup = Setup(device=kind, threads=self.threads, math=math)
                channel.send(setup.to_json())
                decode(channel.receive(START_S), Done)
                worker.is_set_up = True
            except BaseException:
                worker.discard()
                raise
        finally:
            lock.close()
        return worker
