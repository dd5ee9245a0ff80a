"""A user id of its own for each sandbox, under root: limits per user are then per sandbox, and no sandbox can
reach another's processes."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelwright.evaluator.sandbox.policy import UIDS
from kernelwright.evaluator.schema.errors import MachineError

SETGID, SETUID = 6, 7


@dataclass(frozen=True, slots=True)
class UidLease:
    """An exclusive uid, marked by an abstract socket that the kernel removes if this process is killed."""

    uid: int
    mark: socket.socket

    @classmethod
    def take(cls) -> Self:
        """Take any uid that no sandbox on this machine holds; raises MachineError where all are taken."""
        first = random.SystemRandom().randrange(len(UIDS))
        for offset in range(len(UIDS)):
            uid = UIDS[(first + offset) % len(UIDS)]
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                mark.bind(f"\0kernelwright-uid-{uid}")
            except OSError:
                mark.close()
                continue
            return cls(uid, mark)
        raise MachineError(f"all {len(UIDS)} sandbox user ids from {UIDS[0]} are in use")

    def release(self) -> None:
        """Free the uid; none of its processes may run any more."""
        self.mark.close()


def may_switch() -> bool:
    """True where this process may give sandboxes uids of their own: root, with the whole range mapped."""
    return os.geteuid() == 0 and has_capabilities(SETGID, SETUID) and _is_mapped()


def has_capabilities(*numbers: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return all(held >> number & 1 for number in numbers)
    return False


def _is_mapped() -> bool:
    for name in ("uid_map", "gid_map"):
        rows = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(int(row[0]) <= UIDS[0] and UIDS[-1] < int(row[0]) + int(row[2]) for row in rows):
            return False
    return True
