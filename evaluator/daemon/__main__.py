"""Runs a daemon: `python -m kernelwright.evaluator.daemon CACHE`, as `client` starts it.

The process that was started ends with status 0 as soon as callers can connect; its child is the daemon. A
signal to end or to hang up ends it in good order.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kernelwright.evaluator.daemon.endpoint import Endpoint, Listening
from kernelwright.evaluator.daemon.server import Daemon
from kernelwright.evaluator.evaluator import Evaluator

if __name__ == "__main__":
    cache = Path(sys.argv[1])
    listening = Listening(Endpoint.of(cache))
    if os.fork() == 0:
        with Evaluator(cache=cache) as evaluator:
            daemon = Daemon(evaluator, cache)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda *_: daemon.stop())
            daemon.serve(listening)
