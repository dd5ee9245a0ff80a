"""A driver whose one process is a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from kernelwright.evaluator.ipc.channel import Channel, ChannelError
from kernelwright.evaluator.ipc.driver_requests import Ended, Kill, Start, Started
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.referee.worker.driver_link import DriverLink


class ThreadDriver(DriverLink):
    """Starts a process that is a thread here, and does whatever else it is asked."""

    def __init__(self, behave: Callable[[Channel], None]) -> None:
        ours, theirs = map(Channel, socket.socketpair())
        self._ours = ours
        threading.Thread(target=play, args=(theirs, behave), daemon=True).start()

    def start(self, request: Start) -> tuple[Started, Channel]:
        return Started(id=1, set_up=False), self._ours

    def open_freezer(self, process: int) -> None:
        """Nothing stops a thread."""

    # Any: the answer to any request.
    def ask(self, request: Any) -> Any:
        ended = Ended(returncode=0, signal=None, out_of_memory=False, reason="", timed_out=False)
        return ended if isinstance(request, Kill) else Done()


def play(channel: Channel, behave: Callable[[Channel], None]) -> None:
    """Play a process until the referee hangs up."""
    try:
        behave(channel)
    except ChannelError:
        pass
    finally:
        channel.close()
