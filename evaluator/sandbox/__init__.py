"""Starts, limits, freezes and kills process trees that run foreign code; knows no problem and no score."""

from __future__ import annotations

from kernelwright.evaluator.sandbox.isolation.capabilities import probe, strongest
from kernelwright.evaluator.sandbox.isolation.mounts import python_binds, unseen_binds
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import Bind, ExitReport, SandboxPolicy
from kernelwright.evaluator.sandbox.process.launcher import Launcher
from kernelwright.evaluator.sandbox.process.sandboxed_process import SandboxedProcess, signal_name

__all__ = [
    "Bind",
    "ExitReport",
    "Launcher",
    "SandboxPolicy",
    "SandboxedProcess",
    "probe",
    "python_binds",
    "signal_name",
    "strongest",
    "unseen_binds",
]
