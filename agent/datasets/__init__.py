"""Makes training data of an archive: rows for every kind of trainer, split by problem, with a card."""

from __future__ import annotations

from kernelwright.agent.datasets.export_settings import DatasetSettings, Filters
from kernelwright.agent.datasets.exporter import Exported, Exporter, find_exporter
from kernelwright.agent.datasets.select.rewards import reward_of
from kernelwright.agent.records.atomic_folder import UnusableExport

__all__ = [
    "DatasetSettings",
    "Exported",
    "Exporter",
    "Filters",
    "UnusableExport",
    "find_exporter",
    "reward_of",
]
