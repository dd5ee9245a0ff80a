"""The address of a daemon: a socket in a folder that only this user can open, named by what it serves.

Another version of the evaluator, interpreter, torch, cache or environment has another name, so that no
command is answered by a daemon that would evaluate differently. Caller and daemon prove to each other that
they know a secret from a file in that folder: where sandboxes share the host's network and user, they may
reach the socket, but they cannot read the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import BinaryIO, Final

from kernelwright.evaluator.daemon import policy
from kernelwright.evaluator.host import file_lock
from kernelwright.evaluator.schema.record import sha256_text
from kernelwright.evaluator.schema.source_version import distribution_version, source_sha

_PREFIX: Final = "daemon-"
_PEER: Final = struct.Struct("3i")
"""Process, user and group of the other side of a socket."""


class DaemonGone(ConnectionError):
    """No daemon answers here."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Files of one daemon in the folder of this user."""

    name: str

    @classmethod
    def of(cls, cache: Path) -> Endpoint:
        """The daemon of this version and environment that uses a cache."""
        facts = {
            "source": source_sha(),
            "python": sys.executable,
            "torch": distribution_version("torch"),
            "cache": str(cache.absolute()),
            "environment": {
                name: value
                for name, value in sorted(os.environ.items())
                if name in policy.ENVIRONMENT or name.startswith(policy.ENVIRONMENT_PREFIXES)
            },
            "cores": sorted(os.sched_getaffinity(0)),
        }
        return cls(_PREFIX + sha256_text(json.dumps(facts))[:24])

    @classmethod
    def all(cls) -> list[Endpoint]:
        """The daemons of this user that have a socket, alive or not."""
        with _open_folder() as folder:
            return [cls(name) for name in sorted(path.stem for path in folder.glob(f"{_PREFIX}*.sock"))]

    @contextmanager
    def starting(self, wait_s: float) -> Iterator[bool]:
        """Keep others from starting this daemon; False if somebody else does for so long."""
        descriptor = file_lock.open_lock(f"{self.name}.lock")
        try:
            yield file_lock.lock(descriptor, fcntl.LOCK_EX, wait_s=wait_s)
        finally:
            os.close(descriptor)

    def connect(self) -> Connection:
        """Connect, and prove to each other who we are; raises DaemonGone where nobody of ours answers."""
        try:
            with _open_folder() as folder, socket.socket(socket.AF_UNIX) as end:
                secret = (folder / f"{self.name}.key").read_bytes()
                end.settimeout(policy.HELLO_S)
                end.connect(str(folder / f"{self.name}.sock"))
                return _met(end, secret, calls=True)
        except (OSError, EOFError, AuthenticationError) as error:
            raise DaemonGone(f"no daemon answers: {error}") from error

    def log(self) -> BinaryIO:
        """Open the file for what a daemon prints, anew."""
        with _open_folder() as folder:
            return (folder / f"{self.name}.log").open("wb")

    def printed(self, most: int) -> str:
        """The end of what a daemon printed."""
        with _open_folder() as folder, suppress(OSError):
            return (folder / f"{self.name}.log").read_text("utf-8", "replace")[-most:].strip()
        return ""


class Listening:
    """The daemon's end of an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Take the endpoint's place; call it while nobody else starts."""
        self._name = endpoint.name
        self._secret = secrets.token_bytes(policy.KEY_BYTES)
        self._socket = socket.socket(socket.AF_UNIX)
        with _open_folder() as folder:
            self._remove(folder, "sock", "key")
            key = folder / f"{self._name}.key"
            key.touch(0o600, exist_ok=False)
            key.write_bytes(self._secret)
            self._socket.bind(str(folder / f"{self._name}.sock"))
        self._socket.listen(64)

    def accept(self, wait_s: float) -> Connection | None:
        """The next caller of this user that knows the secret; None if there is none in time."""
        self._socket.settimeout(wait_s)
        try:
            end, _ = self._socket.accept()
        except TimeoutError:
            return None
        with end, suppress(OSError, EOFError, AuthenticationError):
            return _met(end, self._secret, calls=False)
        return None

    def close(self) -> None:
        """Leave nothing behind."""
        self._socket.close()
        with _open_folder() as folder:
            self._remove(folder, "sock", "key", "log")

    def _remove(self, folder: Path, *ends: str) -> None:
        for end in ends:
            (folder / f"{self._name}.{end}").unlink(missing_ok=True)


def _met(end: socket.socket, secret: bytes, *, calls: bool) -> Connection:
    """A connection to a process of this user that knows the secret; the proofs are bounded in time."""
    _, user, _ = _PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user != os.geteuid():
        raise AuthenticationError(f"user {user} is not this one")
    end.setblocking(True)
    _limit(end, policy.HELLO_S)
    connection = Connection(os.dup(end.fileno()))
    try:
        for answers in (calls, not calls):
            (answer_challenge if answers else deliver_challenge)(connection, secret)
    except BaseException:
        connection.close()
        raise
    _limit(end, 0)
    return connection


def _limit(end: socket.socket, seconds: float) -> None:
    """Bound each wait on a socket, which `Connection` cannot; 0 waits for ever."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        end.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(seconds), 0))


@contextmanager
def _open_folder() -> Iterator[Path]:
    """A short path to this user's folder while it is open: sockets have room for 107 characters."""
    descriptor = file_lock.open_folder()
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
