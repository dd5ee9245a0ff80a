"""Gives the referee a process number that no contestant has."""

from __future__ import annotations

import os
import sys
import threading

_SKIPPED_PIDS = 64


def raise_pid() -> None:
    """Continue in a child with a higher pid; threads, which have numbers too, use up those below.

    CUDA refuses to open a memory handle whose maker has the opener's own pid, and in pid namespaces of their
    own referee and contestant would both be number 2.
    """
    for _ in range(_SKIPPED_PIDS):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
