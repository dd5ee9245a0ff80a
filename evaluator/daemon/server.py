"""The daemon: one warm evaluator, which serves this user's commands until nobody has asked for a while."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from kernelwright.evaluator.daemon import messages as wire
from kernelwright.evaluator.daemon.endpoint import Listening
from kernelwright.evaluator.daemon.policy import CHECK_S, DEVICE_IDLE_S, IDLE_S
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.evaluator import Evaluator
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.evaluation import Evaluation


class Daemon:
    """Serves requests, each in a thread of its own, until it is idle for `idle_s` or told to stop."""

    def __init__(self, evaluator: Evaluator, cache: Path, *, idle_s: float = IDLE_S) -> None:
        self._evaluator = evaluator
        self._cache = cache
        self._idle_s = idle_s
        self._guard = threading.Lock()
        self._running: set[CancelToken] = set()
        self._evaluated = 0
        self._last = time.monotonic()
        self._is_resting = False
        self._stopped = threading.Event()

    def serve(self, listening: Listening) -> None:
        """Answer callers; returns once it is time to end, with nothing running any more."""
        while not self._stopped.is_set() and self._idle() < self._idle_s:
            connection = listening.accept(CHECK_S)
            if connection is not None:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            elif self._idle() > DEVICE_IDLE_S and not self._is_resting:
                self._is_resting = True
                self._evaluator.release_gpus()
        listening.close()  # whoever asks from here on starts another
        for token in list(self._running):
            token.set()

    def stop(self) -> None:
        """End soon, and cancel what runs."""
        self._stopped.set()

    def _idle(self) -> float:
        with self._guard:
            return 0.0 if self._running else time.monotonic() - self._last

    def _answer(self, connection: Connection) -> None:
        with connection, suppress(OSError, EOFError):
            try:
                match wire.receive(connection, wire.REQUEST):
                    case wire.Evaluate() as request:
                        reply: wire.Reply = wire.Evaluated(evaluation=self._evaluate(request, connection))
                    case wire.Describe():
                        reply = self._status()
                    case wire.Stop():
                        reply = self._status()
                        self.stop()
            except Exception as error:
                reply = wire.Failed(error=type(error).__name__, message=str(error))
                if not isinstance(error, EvaluatorError):
                    raise
            finally:
                wire.send(connection, reply)

    def _evaluate(self, request: wire.Evaluate, connection: Connection) -> Evaluation:
        token = CancelToken()
        with self._guard:
            self._running.add(token)
            self._is_resting = False
        threading.Thread(target=_cancel_at_end, args=(connection, token), daemon=True).start()
        try:
            return self._evaluator.evaluate(
                request.problem,
                request.candidate,
                request.config,
                on_stage=lambda stage: _tell(connection, wire.Entered(stage=stage)),
                stop=token,
            )
        finally:
            with self._guard:
                self._running.discard(token)
                self._evaluated += 1
                self._last = time.monotonic()

    def _status(self) -> wire.DaemonStatus:
        with self._guard:
            running, evaluated = len(self._running), self._evaluated
        return wire.DaemonStatus(
            pid=os.getpid(),
            cache=str(self._cache),
            running=running,
            evaluated=evaluated,
            idle_s=round(self._idle(), 1),
        )


def _tell(connection: Connection, reply: wire.Reply) -> None:
    with suppress(OSError):  # the caller is gone; its evaluation is being cancelled
        wire.send(connection, reply)


def _cancel_at_end(connection: Connection, token: CancelToken) -> None:
    """A caller sends nothing after its request: what comes is the end of its side."""
    with suppress(OSError, EOFError):
        connection.recv_bytes(0)
    with suppress(EvaluatorError):
        token.set()
