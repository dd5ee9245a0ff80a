"""A user of its own for each sandbox, when this process may become any: limits per user are then per sandbox,
and no sandbox can touch another's processes."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Final, Self

from kernelwright.evaluator.schema.errors import MachineError

RANGE: Final = range(61000, 65000)
SETGID, SETUID = 6, 7


class UidLease:
    """An exclusive uid; a bound abstract socket marks it taken, which the kernel frees if we are killed."""

    def __init__(self, uid: int, mark: socket.socket) -> None:
        self.uid = uid
        self._mark = mark

    @classmethod
    def take(cls) -> Self:
        """Any uid of the range that no sandbox on this machine holds.

        Raises:
            MachineError: all are taken.
        """
        first = random.SystemRandom().randrange(len(RANGE))
        for offset in range(len(RANGE)):
            uid = RANGE[(first + offset) % len(RANGE)]
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                mark.bind(f"\0kernelwright-uid-{uid}")
            except OSError:
                mark.close()
                continue
            return cls(uid, mark)
        raise MachineError(f"all {len(RANGE)} sandbox user ids from {RANGE[0]} are in use")

    def release(self) -> None:
        """Let others have it; nothing of it may run any more."""
        self._mark.close()


def may_switch() -> bool:
    """Whether this process may give sandboxes uids of their own: root, with the whole range mapped."""
    return os.geteuid() == 0 and has_capabilities(SETGID, SETUID) and _is_mapped()


def has_capabilities(*numbers: int) -> bool:
    """Whether this process effectively has every capability named."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return all(held >> number & 1 for number in numbers)
    return False


def _is_mapped() -> bool:
    for name in ("uid_map", "gid_map"):
        rows = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(int(row[0]) <= RANGE[0] and RANGE[-1] < int(row[0]) + int(row[2]) for row in rows):
            return False
    return True
