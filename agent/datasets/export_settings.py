"""The settings of a dataset: everything that decides its rows and their form."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from kernelwright.evaluator import Record, Status


class Reasoning(StrEnum):
    """The thoughts a model wrote before its answer: left out, or written between marks."""

    DROP = "drop"
    KEEP = "keep"


class Dedup(StrEnum):
    """Repeats of one problem that are left out."""

    NONE = "none"
    EXACT = "exact"
    """Equal except for comments, layout and the names of variables."""
    NEAR = "near"
    """Those that share at least `NEAR_SHARE` of their token runs, too."""


class Pairing(StrEnum):
    """The scope of a pair."""

    PROMPT = "prompt"
    """Answers to the same prompt."""
    PROBLEM = "problem"
    """Answers for one problem and backend; the pair's prompt is the one that opened its conversations."""


class Filters(Record):
    """Attempts to use; an empty tuple or None accepts all."""

    runs: tuple[str, ...] = ()
    """Runs by id; on the command line also by a unique prefix, or `last`."""
    problems: tuple[str, ...] = ()
    """Problems whose id contains one of these."""
    statuses: tuple[Status, ...] = ()
    """Take attempts with these statuses only, such as PASSED."""
    tracks: tuple[Literal["own", "mixed", "library", "unknown"], ...] = ()
    """Owners of the kernels that did the work of a pass."""
    min_speedup: float | None = Field(default=None, allow_inf_nan=False)
    """Least speedup of a pass; a pass that was not timed is refused."""
    hardware: tuple[str, ...] = ()
    """Names of devices contain one of these; applies to attempts that reached a device."""
    models: tuple[str, ...] = ()
    """Models that wrote them."""
    licenses: tuple[str, ...] = ()
    """Their licence; case is ignored."""
    backends: tuple[str, ...] = ()
    """Backends they are written for."""


class DatasetSettings(Record):
    """The settings of one dataset."""

    filters: Filters = Filters()
    reasoning: Reasoning = Reasoning.DROP
    """Keep or drop models' thoughts."""
    dedup: Dedup = Dedup.NEAR
    """Repeats to leave out."""
    pairing: Pairing = Pairing.PROMPT
    """Both answers of a pair share the prompt, or the problem only."""
    pairs: int = Field(default=100, ge=1)
    """Largest number of pairs of one problem."""
    test: float = Field(default=0.1, ge=0, le=1)
    """Share of problems in the test split."""
    seed: int = 0
    """Selects the problems of the test split."""
    slower: bool = False
    """Use passes that are slower than the baseline as examples, too."""
    parquet: bool = False
    """Write Parquet beside JSON Lines."""
    decontaminate: tuple[str, ...] = ()
    """Files and folders of problems that must not be in the dataset, nor nearly."""

    def command(self, format: str, workspace: str, out: str) -> str:
        words = ["kernelwright", "export", format, "--out", out, "--workspace", workspace]
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
        words += [f"--{name}" for name in ("slower", "parquet") if getattr(self, name)]
        return shlex.join(words)


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
