"""Hands whole runs to another project, in a folder that appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets import Exported
from kernelwright.agent.leaderboard.rows import settled_policies
from kernelwright.agent.records.atomic_folder import appearing
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Evaluation, Record, sha256_text

CANDIDATES: Final = ("candidates", "")
"""The table that counts what was written."""
NAME_CHARACTERS: Final = 120
"""Longest name of a file or folder, without its suffix."""


class RunSelection(Record):
    """The settings of a format that takes whole runs."""

    runs: tuple[str, ...] = ()
    """Run ids; all runs when empty."""


class RunWriter(Protocol):
    """Writes attempts into a folder."""

    def take(self, attempt: Attempt, evaluation: Evaluation, policy: ScorePolicy) -> str:
        """Write an attempt, scored under a policy; return the reason where nothing was written.

        Scores of two policies must share no table.

        Raises:
            ArchiveError: a text of it is missing or damaged; nothing was written.
        """

    def finish(self) -> str:
        """Write the files about all attempts; return a remark for people, or an empty text."""


@dataclass(frozen=True, slots=True)
class RunExporter:
    """A format that takes whole runs; implements `Exporter`."""

    name: str
    description: str
    open: Callable[[Archive, Path], RunWriter]
    settings: type[Record] = RunSelection

    def write(self, archive: Archive, out: Path, settings: Record) -> Exported:
        """Write runs, raising what `Exporter.write` does; without a candidate there is no folder."""
        runs = RunSelection.model_validate(settings, from_attributes=True).runs or archive.runs()
        exported = Exported(out, runs=list(runs))
        with appearing(out) as pending:
            writer = self.open(archive, pending.path)
            for run in runs:
                policies = settled_policies(archive.attempts(run))
                for attempt in archive.attempts(run):
                    exported.seen += 1
                    policy = policies.get(attempt.id)
                    try:
                        found = archive.evaluation(attempt)
                        reason = writer.take(attempt, found, policy) if found and policy else "not judged"
                    except ArchiveError:
                        reason = "a text of it is missing or damaged"
                    exported.left_out.update([reason] if reason else [])
            exported.used = exported.seen - exported.left_out.total()
            exported.rows.update({CANDIDATES: exported.used} if exported.used else {})
            exported.hint = writer.finish()
            pending.is_wanted = bool(exported.used)
        return exported


def write_json(path: Path, value: object) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")


def bounded(name: str) -> str:
    """A name that a file system takes; a longer one is cut and ends in its hash."""
    if len(name) <= NAME_CHARACTERS:
        return name
    return f"{name[: NAME_CHARACTERS - 13]}_{sha256_text(name)[:12]}"
