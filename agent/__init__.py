"""Asks models for kernels, records every attempt, and reports; evaluates nothing itself.

Public names are loaded on first use, so that importing this loads nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.agent.archive import Archive, ArchiveError, UnknownRun
    from kernelwright.agent.evaluation.service_client import ServiceClient
    from kernelwright.agent.interop.verifiers_environment import load_environment
    from kernelwright.agent.leaderboard import Board, board
    from kernelwright.agent.records.budgets import Budget
    from kernelwright.agent.records.messages import ProviderError, Sampling
    from kernelwright.agent.setup.dataset_setup import export
    from kernelwright.agent.setup.run_batch import Batch, run_batch
    from kernelwright.agent.setup.run_settings import RunSettings
    from kernelwright.agent.setup.usage_error import UsageError
    from kernelwright.agent.workspace import Kernel, UnknownKernel, Workspace

_HOMES = {
    "archive": ("Archive", "ArchiveError", "UnknownRun"),
    "evaluation.service_client": ("ServiceClient",),
    "interop.verifiers_environment": ("load_environment",),
    "leaderboard": ("Board", "board"),
    "records.budgets": ("Budget",),
    "records.messages": ("ProviderError", "Sampling"),
    "setup.run_batch": ("Batch", "run_batch"),
    "setup.dataset_setup": ("export",),
    "setup.run_settings": ("RunSettings",),
    "setup.usage_error": ("UsageError",),
    "workspace": ("Kernel", "UnknownKernel", "Workspace"),
}

__all__ = [
    "Archive",
    "ArchiveError",
    "Batch",
    "Board",
    "Budget",
    "Kernel",
    "ProviderError",
    "RunSettings",
    "Sampling",
    "ServiceClient",
    "UnknownKernel",
    "UnknownRun",
    "UsageError",
    "Workspace",
    "board",
    "export",
    "load_environment",
    "run_batch",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"{__name__}.{home}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
