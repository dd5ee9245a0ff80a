"""A referee's process and the conversation with it: one request at a time, its own served meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage, connected, preloaded
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.messages import A_co, Dispatcher, M, Message, Request, answers_to, decode
from kernelwright.evaluator.ipc.referee_messages import Refused
from kernelwright.evaluator.sandbox import Launcher, SandboxPolicy
from kernelwright.evaluator.schema.errors import DeviceFull, EvaluatorError, ProblemError


@dataclass(frozen=True, slots=True)
class Handover:
    """An answer that sockets or files travel with, if there are any."""

    answer: Message
    ends: tuple[socket.socket | BinaryIO, ...] = ()


Served = Message | Handover


class RefereeProcess:
    """One referee."""

    def __init__(self, launcher: Launcher, image: RuntimeImage, policy: SandboxPolicy) -> None:
        """Start it; raises MachineError where the sandbox cannot be started."""
        preload = preloaded("referee")
        ours, self.sandboxed = connected(
            lambda fd: launcher.start(image.command("referee", fd), policy, fds=(fd,), preload=preload)
        )
        self._channel = Channel(ours)

    def converse(
        self, request: Request[A_co], dispatcher: Dispatcher[Served], *, wait_s: Callable[[], float]
    ) -> A_co:
        """Send a request and serve the referee's own until its answer arrives.

        `wait_s` says before each message how long to wait for it.

        Raises:
            DeviceFull: the problem does not fit into what is free of the device's memory.
            ProblemError: the problem does not run here.
            EvaluatorError: the referee failed.
            ChannelError: it is gone, is silent for too long, or does not speak the protocol.
        """
        self._channel.send(request.to_json())
        return self.answer(answers_to(type(request)), dispatcher, wait_s=wait_s)

    def answer(
        self, kinds: tuple[type[M], ...], dispatcher: Dispatcher[Served], *, wait_s: Callable[[], float]
    ) -> M:
        """The next answer, of one of some kinds; raises what `converse` does."""
        while True:
            received = self._channel.receive(wait_s())
            if not dispatcher.knows(received):
                break
            served = dispatcher.handle(received)
            handover = served if isinstance(served, Handover) else Handover(served)
            with contextlib.ExitStack() as ends:
                for end in handover.ends:
                    ends.enter_context(end)
                files = [end.fileno() for end in handover.ends]
                self._channel.send(handover.answer.to_json(), files)
        answer = decode(received, Refused, *kinds)
        if not isinstance(answer, Refused):
            return answer  # type: ignore[return-value]  # of one of the kinds
        match answer.reason:
            case "device_full":
                raise DeviceFull(answer.text)
            case "problem":
                raise ProblemError(answer.text)
            case "crash":
                raise EvaluatorError(f"the referee failed: {answer.text}")

    def output(self, characters: int) -> str:
        """The end of what it printed."""
        return self.sandboxed.output()[-characters:].strip()

    def close(self) -> None:
        """Hang up and kill it."""
        self._channel.close()
        self.sandboxed.kill()
