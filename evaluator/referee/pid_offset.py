"""Gives the referee a process number that no contestant has, before torch is imported."""

from __future__ import annotations

import os
import sys

_SKIPPED_PIDS = 64


def raise_pid() -> None:
    """Continue in a child with a higher pid.

    CUDA refuses to open a memory handle whose maker has the opener's own pid, and in pid namespaces of their
    own referee and contestant would both be number 2.
    """
    for _ in range(_SKIPPED_PIDS):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
