"""A warm evaluator of this user that outlives one command: `evaluate_warm()`."""

from __future__ import annotations

from kernelwright.evaluator.daemon.client import DaemonStatus, evaluate_warm, running_daemons, stop_daemons

__all__ = ["DaemonStatus", "evaluate_warm", "running_daemons", "stop_daemons"]
