"""Starts, bounds, freezes and kills process trees that run foreign code; knows no problem and no score."""

from __future__ import annotations

from evaluator.sandbox.binds import python_binds
from evaluator.sandbox.launcher import Launcher
from evaluator.sandbox.policy import Bind, ExitReport, SandboxPolicy, SandboxProbe, TierProbe
from evaluator.sandbox.probing import probe, strongest
from evaluator.sandbox.sandboxed import Sandboxed

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
