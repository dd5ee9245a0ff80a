"""The referee's line to the driver, who owns processes, builds and the device lock."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from kernelwright.evaluator.ipc import driver_requests as wire
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.messages import A_co, Request, answers_to, decode
from kernelwright.evaluator.referee.worker.policy import FIRST_LOOK_S, FREEZE_S, LONGEST_LOOK_S


class DriverLink:
    """Asks the driver and waits for its answers."""

    reads_memory = False
    """True once memory of a process could be read: the system allows it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._holds = False

    def ask(self, request: Request[A_co]) -> A_co:
        """The driver's answer to a request.

        Raises:
            ChannelError: the driver is gone, or failed.
        """
        self._channel.send(request.to_json())
        return decode(self._channel.receive(with_fds=True), *answers_to(type(request)))

    def start(self, request: wire.Start) -> tuple[wire.Started, Channel]:
        """Start a process; returns it with our end of its channel."""
        return self.ask(request), Channel.from_fd(self._channel.take_fds()[0])

    def open_memory(self, process: int) -> int | None:
        """A descriptor to read a process's memory with; None where the system forbids it."""
        return self._channel.take_fds()[0] if self.ask(wire.OpenMemory(id=process)).opened else None

    def open_freezer(self, process: int) -> ProcessFreezer | None:
        """Open a process's freezer, to use it at once; None where only the driver can."""
        opened = self.ask(wire.OpenFreezer(id=process))
        return ProcessFreezer(opened, *self._channel.take_fds()) if opened.opened else None

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record the time spent inside as a span of the trace."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.ask(wire.RecordStep(name=name, seconds=time.monotonic() - began))

    def hold(self, *, exclusive: bool, anew: bool = False, after_tools: bool = False) -> float:
        """Wait for the device; returns the seconds waited, which are nobody's fault.

        With `anew`, others that wait come before: it is given back first, unless its work can be paused.
        With `after_tools`, calls under a tool are not stopped but waited for.
        """
        self._holds = True
        request = wire.Hold(exclusive=exclusive, anew=anew, after_tools=after_tools)
        return self.ask(request).waited_s

    def hold_for_tools(self) -> float:
        """Share the device for calls under a tool, until the next `hold` or `release`.

        Returns the seconds waited, for other candidates' such calls and for those who time after them.
        """
        self._holds = True
        return self.ask(wire.HoldForTools()).waited_s

    def ensure_held(self) -> float:
        """Share the device unless it is held, shared or alone; returns the seconds waited."""
        return 0.0 if self._holds else self.hold(exclusive=False)

    def paused_s(self) -> float:
        """Seconds this process and its workers were stopped while others timed, in all."""
        return self.ask(wire.FindPauses()).seconds

    def release(self) -> None:
        self._holds = False
        self.ask(wire.Release())

    # Any: facts are JSON, checked by their reader.
    def recall(self, about: str = "") -> dict[str, Any]:
        """Facts remembered of this problem and policy or, with `about`, of the device; or none."""
        return self.ask(wire.Recall(about=about)).facts

    def remember(self, facts: dict[str, Any], about: str = "") -> None:
        """Keep facts under the key that `recall` uses."""
        self.ask(wire.Remember(about=about, facts=facts))

    def report(self, process: int, wait_s: float) -> wire.ToolReport:
        """End a process under a tool and return the tool's report."""
        return self.ask(wire.ReadReport(id=process, wait_s=wait_s))


class ProcessFreezer:
    """Stops a process and lets it run, by descriptors that the driver opened: no question each time."""

    def __init__(self, opened: wire.FreezerOpened, control: int, state: int) -> None:
        self._stop, self._go, self._stopped = (
            word.encode() for word in (opened.stop, opened.go, opened.stopped)
        )
        self._control, self._state = control, state

    def freeze(self) -> bool:
        """Stop every task and wait until none runs; False where one goes on, or the process has ended."""
        try:
            os.pwrite(self._control, self._stop, 0)
            deadline, pause_s = time.monotonic() + FREEZE_S, FIRST_LOOK_S
            while self._stopped not in os.pread(self._state, 4096, 0):
                if time.monotonic() > deadline:
                    return False
                time.sleep(pause_s)
                pause_s = min(LONGEST_LOOK_S, 2 * pause_s)
        except OSError:
            return False
        return True

    def thaw(self) -> bool:
        """Let its tasks run; False where the process has ended."""
        try:
            os.pwrite(self._control, self._go, 0)
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self._control)
        os.close(self._state)
