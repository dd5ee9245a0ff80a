"""Makes training data of an archive: rows for every kind of trainer, split by problem, with a card."""

from __future__ import annotations

from agent.export.exporting import Exported, export
from agent.export.rewards import reward_of
from agent.export.settings import Dedup, Filters, Format, Pairing, Reasoning, Settings, UnusableExport

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
