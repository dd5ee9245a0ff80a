"""What an export was asked to do: everything that decides which rows it holds, and how they look."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Final

from pydantic import Field

from kernelwright.evaluator import Record, Status


class Format(StrEnum):
    """What a dataset is for."""

    SFT = "sft"
    PREFERENCE = "preference"
    UNPAIRED = "unpaired"
    RL = "rl"
    TRAJECTORIES = "trajectories"
    ATTEMPTS = "attempts"


class Reasoning(StrEnum):
    """What becomes of what a model thought before it answered."""

    DROP = "drop"
    KEEP = "keep"


class Dedup(StrEnum):
    """Which repeats of one problem are left out."""

    NONE = "none"
    EXACT = "exact"
    """Equal but for comments, layout and the names of variables."""
    NEAR = "near"
    """Sharing at least `NEAR_SHARE` of their runs of tokens, too."""


class Pairing(StrEnum):
    """Which replies may stand in one pair."""

    PROMPT = "prompt"
    """Answers to the very same prompt."""
    PROBLEM = "problem"
    """Answers for one problem and backend; the pair's prompt is the one that opened its conversations."""


class Track(StrEnum):
    """Whose kernels did the work."""

    OWN = "own"
    MIXED = "mixed"
    LIBRARY = "library"
    UNKNOWN = "unknown"


class UnusableExport(Exception):
    """An export that cannot be made as asked; the message says the way out."""


class Filters(Record):
    """Which attempts count; an empty tuple and None let everything through."""

    runs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Problems whose id contains one of these."""
    statuses: tuple[Status, ...] = ()
    tracks: tuple[Track, ...] = ()
    """Of those that passed: whose kernels did the work."""
    min_speedup: float | None = Field(default=None, allow_inf_nan=False)
    """Of those that passed: the least speedup; one without a speedup has none."""
    hardware: tuple[str, ...] = ()
    """Of those that reached a device: its name contains one of these."""
    models: tuple[str, ...] = ()
    licenses: tuple[str, ...] = ()
    """In capitals or not."""
    backends: tuple[str, ...] = ()


class Settings(Record):
    """One export."""

    format: Format
    filters: Filters = Filters()
    reasoning: Reasoning = Reasoning.DROP
    dedup: Dedup = Dedup.NEAR
    pairing: Pairing = Pairing.PROMPT
    pairs: int = Field(default=100, ge=1)
    """Most pairs of one problem."""
    test: float = Field(default=0.1, ge=0, le=1)
    """Share of problems that are held out."""
    seed: int = 0
    """Changes which problems are held out."""
    parquet: bool = False
    """Whether Parquet is written beside JSON Lines."""
    decontaminate: tuple[str, ...] = ()
    """Files and folders of problems that must not be in the dataset."""

    def command(self, workspace: str, out: str) -> str:
        """The command line that makes this export."""
        words = ["kernelwright", "export", self.format.value, "--out", out, "--workspace", workspace]
        for name, option in _REPEATED.items():
            for value in getattr(self.filters, name):
                words += [option, str(value)]
        if self.filters.min_speedup is not None:
            words += ["--min-speedup", str(self.filters.min_speedup)]
        for name in ("reasoning", "dedup", "pairs", "test", "seed"):
            words += [f"--{name}", str(getattr(self, name))]
        words += ["--pair-by", self.pairing.value]
        for path in self.decontaminate:
            words += ["--decontaminate", path]
        return shlex.join([*words, *(["--parquet"] if self.parquet else [])])


_REPEATED: Final = {
    "runs": "--run",
    "problems": "--problem",
    "statuses": "--status",
    "tracks": "--track",
    "hardware": "--hardware",
    "models": "--model",
    "licenses": "--license",
    "backends": "--backend",
}
