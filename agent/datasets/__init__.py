"""Makes training data of an archive: rows for every kind of trainer, split by problem, with a card."""

from __future__ import annotations

from kernelwright.agent.datasets.dataset_export import Exported, export
from kernelwright.agent.datasets.export_settings import (
    Dedup,
    Filters,
    Format,
    Pairing,
    Reasoning,
    Settings,
    UnusableExport,
)
from kernelwright.agent.datasets.select.rewards import reward_of

__all__ = [
    "Dedup",
    "Exported",
    "Filters",
    "Format",
    "Pairing",
    "Reasoning",
    "Settings",
    "UnusableExport",
    "export",
    "reward_of",
]
