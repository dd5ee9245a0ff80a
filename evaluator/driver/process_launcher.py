"""Starts the processes a referee asks for: ordinary ones, watched ones, and plain ones ahead of time."""

from __future__ import annotations

import itertools
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelwright.evaluator.analysis.ncu import COUNTERS, NcuRun, find_ncu
from kernelwright.evaluator.analysis.sanitizers import SanitizerRun, Sanitizers
from kernelwright.evaluator.driver.built_libraries import BuiltLibraries
from kernelwright.evaluator.driver.runtime_image import RuntimeImage
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.ipc.channel import Channel, ChannelGarbled
from kernelwright.evaluator.sandbox import Launcher, SandboxedProcess, SandboxPolicy
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import MachineError

_START_S = 120.0
_SERIAL = itertools.count(1)


class ToolWrapper(Protocol):
    """A tool around one process: a sanitizer, or what counts for it."""

    tool: str
    log: int
    """Descriptor of the tool's own log."""
    libraries: list[Path]
    """What was built for the process."""
    sources: dict[str, str]
    """Texts that were compiled, by file name."""

    def command(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` under the tool."""
        ...

    def policy(self, policy: SandboxPolicy) -> SandboxPolicy:
        """A contestant's bounds, made to fit the tool."""
        ...

    def report(self, output: str, source: str) -> dict[str, Any]:  # Any: JSON for the referee
        """What the tool says, as the referee hears it."""
        ...

    def close(self) -> None:
        """Give the log's memory back."""
        ...


@dataclass(slots=True)
class WorkerHandle:
    """A process of the contestants' kind, as the driver knows it."""

    number: int
    sandboxed: SandboxedProcess
    libraries: Path
    role: str
    watch: ToolWrapper | None
    supply: BuiltLibraries


@dataclass(frozen=True, slots=True)
class LaunchedProcess:
    """A process that waits for a message, and our end of its channel."""

    process: WorkerHandle
    end: socket.socket
    is_set_up: bool = False
    """Whether it has opened its device."""

    def discard(self) -> None:
        """End it unused."""
        self.end.close()
        self.process.sandboxed.kill()
        shutil.rmtree(self.process.libraries, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class ProcessLauncher:
    """Starts processes of one kind: same device, same bounds."""

    launcher: Launcher
    staging: RuntimeImage
    config: EvaluationConfig
    device: str
    threads: int
    sanitizers: Callable[[], Sanitizers]

    @property
    def kind(self) -> str:
        """The same for starters whose processes may stand in for each other."""
        return f"{self.device} {self.threads} {self.config.math} {self.config.limits.model_dump_json()}"

    def start(self, role: str, *, threads: int | None = None, tool: str | None = None) -> LaunchedProcess:
        """Start a process that imports torch and waits; it has seen no foreign code.

        Raises:
            MachineError: the sandbox could not be started.
        """
        ours, theirs = socket.socketpair()
        number = next(_SERIAL)
        libraries = self.staging.built_folder(str(number))
        command = self.staging.command("contestant", theirs.fileno())
        policy = self.staging.contestant_policy(
            self.config, device=self.device, libraries=libraries, threads=threads or self.threads
        )
        fds: tuple[int, ...] = (theirs.fileno(),)
        watch = self._observer(tool) if tool else None
        if watch is not None:
            command, policy, fds = watch.command(command), watch.policy(policy), (*fds, watch.log)
        try:
            sandboxed = self.launcher.start(
                command, policy, fds=fds, output_bytes=self.config.limits.output_kib << 10
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return LaunchedProcess(
            WorkerHandle(number, sandboxed, libraries, role, watch, BuiltLibraries(libraries)), ours
        )

    def _observer(self, tool: str) -> ToolWrapper:
        if tool != COUNTERS:
            return SanitizerRun(self.sanitizers(), tool)
        ncu = find_ncu()
        if ncu is None:
            raise MachineError("ncu is not installed; it is part of the CUDA toolkit")
        return NcuRun(ncu)

    def start_ahead(self) -> LaunchedProcess:
        """Start a plain process and let it open its device, while nobody has the device alone.

        Raises:
            MachineError: the sandbox could not be started.
            ChannelError: the process died, or says something else than that it is ready.
        """
        lease = DeviceLock(self.device)
        try:
            if self.device == "cpu":
                lease.share()  # importing torch takes a core
            launched = self.start("candidate")
            try:
                channel = Channel(launched.end)
                _expect(channel, "ready")
                lease.share()
                settings = {"device": self.device.partition(":")[0], "threads": self.threads}
                channel.send({"op": "setup", **settings, "math": self.config.math.value})
                _expect(channel, "done")
            except BaseException:
                launched.discard()
                raise
        finally:
            lease.close()
        return LaunchedProcess(launched.process, launched.end, is_set_up=True)


def _expect(channel: Channel, word: str) -> None:
    reply = channel.receive(_START_S)
    if reply.get("op") != word:
        raise ChannelGarbled(f"not {word}: {str(reply)[:300]}")
