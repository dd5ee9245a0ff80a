"""Runs the application under uvicorn: slow clients are disconnected, and a signal drains the queue."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from kernelwright.agent.service.evaluation_queue import EvaluationQueue
from kernelwright.agent.service.policy import ANSWERS_S, HEAD_BYTES, HEAD_S, LAST_S
from kernelwright.agent.service.service_workers import ServiceWorkers
from kernelwright.evaluator import MachineError

_LOG = logging.getLogger(__name__)


class HastyProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the head of a request; uvicorn alone waits for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; a complete head ends the wait, an incomplete one begins it."""
        super().data_received(data)
        if self._is_answering():
            self._forget()
        elif self._deadline is None:
            self._await_head()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_answering():
            self.transport.close()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Service(uvicorn.Server):
    """One running service."""

    def __init__(
        self,
        app: FastAPI,
        queue: EvaluationQueue,
        workers: ServiceWorkers,
        *,
        drain_s: float,
        connections: int,
        head_s: int = HEAD_S,
    ) -> None:
        """Once it ends, running evaluations that take longer than `drain_s` are left to the next service.

        Connections beyond so many are answered 503.
        """
        self._queue = queue
        self._workers = workers
        self._drain_s = drain_s
        self._is_ending = False
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=HastyProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=connections,
                timeout_keep_alive=head_s,
                timeout_graceful_shutdown=ANSWERS_S,
                h11_max_incomplete_event_size=HEAD_BYTES,
            )
        )

    def answer(self, listener: socket.socket) -> None:
        """Answer until `end` or a signal, and until running evaluations have ended.

        Evaluations that are queued or did not end in time stay in the state folder for the next service.
        """
        self._workers.start()
        self.run(sockets=[listener])
        self._queue.drain()
        if self._workers.join(0.0):
            return
        _LOG.warning("stopping %d evaluations; the next service begins them again", self._queue.running)
        try:
            self._queue.stop()
        except MachineError as error:
            _LOG.error("%s", error)
        self._workers.join(LAST_S)

    def end(self) -> None:
        """Accept and begin nothing more, answer those who wait for running evaluations, and end.

        A second call does not wait for them.
        """
        if self._is_ending:
            self.force_exit = self.should_exit = True
            return
        self._is_ending = True
        # Not here: the thread that a signal interrupts may hold a lock of the queue.
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        self._queue.drain()
        self._workers.join(self._drain_s)
        self._queue.hang_up()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals without raising them again: running evaluations still have to end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
