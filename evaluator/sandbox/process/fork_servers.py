"""The launcher's end of its fork servers: Pythons that start programs with modules already imported."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kernelwright.evaluator.sandbox.policy import PRELOAD_S
from kernelwright.evaluator.sandbox.process.init_plan import StartRequest
from kernelwright.evaluator.sandbox.process.spawn_thread import SpawnThread
from kernelwright.evaluator.schema.errors import MachineError

SERVER = Path(__file__).resolve().with_name("fork_server.py")
NAMESPACES: Final = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
"""Their names in /proc/PID/ns and their flags, in the order to enter them one by one."""
LATE: Final = frozenset({"CUDA_VISIBLE_DEVICES"})
"""Variables that nothing reads while modules are imported: one server does for all their values."""


class OpenNamespaces:
    """Namespaces of a process that are not this process's own, and its root.

    Who enters a mount namespace finds itself at that namespace's root, which is the process's only where
    nothing above it had changed its root before.
    """

    def __init__(self, pid: int) -> None:
        """Open them, after the process itself; raises MachineError where that is gone or closed to us."""
        self.flags, self.files = 0, list[int]()
        try:
            self.files.append(os.pidfd_open(pid))
            for name, flag in NAMESPACES.items():
                theirs, ours = (f"/proc/{which}/ns/{name}" for which in (pid, "self"))
                if os.readlink(theirs) != os.readlink(ours):  # noqa: PTH115
                    self.files.append(os.open(theirs, os.O_RDONLY | os.O_CLOEXEC))
                    self.flags |= flag
            self.files.append(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            self.close()
            raise MachineError(f"cannot enter a sandbox: {error}") from error

    def close(self) -> None:
        """Close them."""
        for file in self.files:
            os.close(file)


class ForkServers:
    """One server for each interpreter, environment and list of modules; usable from any thread."""

    def __init__(self, spawner: SpawnThread) -> None:
        self._spawner = spawner
        self._servers: dict[object, _ForkServer] = {}
        self._lock = threading.Lock()
        self._closed = False

    def fork(self, request: StartRequest, namespaces: OpenNamespaces, control: int) -> None:
        """Have the program of a `-c` command forked into a sandbox's namespaces; it answers on `control`.

        Raises:
            MachineError: there is no such server, or it died.
        """
        interpreter = request.argv[: request.argv.index("-c")]
        early = {name: value for name, value in request.policy.environment.items() if name not in LATE}
        key = (*interpreter, *sorted(early.items()), *request.preload)
        server = None
        try:
            with self._lock:
                if self._closed:
                    raise MachineError("the launcher is closed")
                server = self._servers.get(key)
                if server is not None and server.has_ended():
                    server.close()
                    server = None
                if server is None:
                    command = (*interpreter, str(SERVER))
                    server = _ForkServer(self._spawner, command, early, request.preload)
                    self._servers[key] = server
            server.fork(namespaces, (control, request.output, *request.fds))
        except OSError as error:
            if server is not None:
                with self._lock:
                    if self._servers.get(key) is server:  # and not one that another thread has put there
                        del self._servers[key]
                server.close()
            raise MachineError(f"cannot fork a program: {error}") from error

    def close(self) -> None:
        """End them all, whoever waits for one; none starts later."""
        with self._lock:
            self._closed = True
            for server in self._servers.values():
                server.close()


class _ForkServer:
    def __init__(
        self,
        spawner: SpawnThread,
        command: Sequence[str],
        environment: Mapping[str, str],
        preload: Sequence[str],
    ) -> None:
        self._lock = threading.Lock()
        self._ready = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = spawner.spawn(
                (*command, str(theirs.fileno()), *preload),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                fds=(theirs.fileno(),),
                environment=environment,
            )
        self._socket.settimeout(PRELOAD_S)

    def fork(self, namespaces: OpenNamespaces, files: Sequence[int]) -> None:
        with self._lock:
            if not self._ready and not self._socket.recv(16):
                raise OSError("the fork server ended while it imported modules")
            self._ready = True
            request = marshal.dumps((namespaces.flags, len(namespaces.files), max(files) + 1))
            socket.send_fds(self._socket, [request], [*namespaces.files, *files])

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """End it; programs that it forked go with it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._socket.close()
