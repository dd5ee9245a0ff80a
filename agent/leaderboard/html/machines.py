"""The machines and software behind the scores of a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.records.attempt_log import Attempt


@dataclass(frozen=True, slots=True, order=True)
class Machine:
    """One device with the software of its scores; empty where a record does not say."""

    hardware: str
    driver: str
    torch: str
    cuda: str
    evaluator: str
    """Version and source hash."""


def machines(archive: Archive, attempts: Iterable[Attempt]) -> list[tuple[Machine, str]]:
    """The machines of the attempts, with the days of their runs; one attempt of each run is read."""
    days: dict[Machine, list[str]] = {}
    read: set[tuple[str, str]] = set()
    for attempt in attempts:
        hardware = attempt.evaluation.score.hardware if attempt.evaluation else None
        if hardware is None or (attempt.key.run, hardware) in read:
            continue
        read.add((attempt.key.run, hardware))
        try:
            evaluation = archive.evaluation(attempt)
        except ArchiveError:
            continue
        if evaluation is None or evaluation.environment is None:
            continue
        where = evaluation.environment
        evaluator = " ".join(filter(None, (evaluation.evaluator_version, evaluation.evaluator_sha)))
        found = (where.device_name, where.driver, where.torch, where.cuda, evaluator)
        day = (evaluation.evaluated_at or attempt.completion.completed_at)[:10]
        days.setdefault(Machine(*map(name, found)), []).append(name(day))
    return [(machine, " to ".join(sorted({min(on), max(on)}))) for machine, on in sorted(days.items())]
