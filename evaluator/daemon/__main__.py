"""Runs a daemon: `python -m kernelwright.evaluator.daemon CACHE`, as `client` starts it.

The process that was started ends with status 0 as soon as callers can connect; its child is the daemon.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kernelwright.evaluator.daemon.endpoint import Endpoint, Listening
from kernelwright.evaluator.daemon.server import run

if __name__ == "__main__":
    cache = Path(sys.argv[1])
    listening = Listening(Endpoint.of(cache))
    if os.fork() == 0:
        run(listening, cache)
