"""Starts, bounds, freezes and kills process trees that run foreign code. Knows nothing of problems or scores."""

from __future__ import annotations

from evaluator.sandbox.binds import python_binds
from evaluator.sandbox.launcher import Launcher, Sandboxed
from evaluator.sandbox.policy import Bind, ExitReport, SandboxPolicy, SandboxProbe, TierProbe
from evaluator.sandbox.probing import probe, strongest

__all__ = [
    "Bind",
    "ExitReport",
    "Launcher",
    "SandboxPolicy",
    "SandboxProbe",
    "Sandboxed",
    "TierProbe",
    "probe",
    "python_binds",
    "strongest",
]
