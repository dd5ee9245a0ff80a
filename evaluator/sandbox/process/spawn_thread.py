"""One long-lived thread starts every process: a child that dies with its parent dies with the parent's
*thread*, so short-lived threads must not fork."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future


class SpawnThread:
    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="sandbox-spawner", daemon=True)
        self._thread.start()

    def spawn(
        self,
        argv: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        fds: Sequence[int],
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own, with this environment and only these descriptors.

        Raises:
            OSError, ValueError: it cannot be executed.
        """
        answer: Future[subprocess.Popen[bytes]] = Future()

        def start() -> None:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stdout,
                    pass_fds=fds,
                    env=dict(environment or {}),
                    cwd="/",
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
                answer.set_exception(error)
            else:
                answer.set_result(process)

        with self._lock:
            if self._closed:
                raise OSError("the launcher is closed")
            self._requests.put(start)
        return answer.result()

    def close(self) -> None:
        """End the thread; all its running processes die with it."""
        with self._lock:
            self._closed = True
            self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            request()
