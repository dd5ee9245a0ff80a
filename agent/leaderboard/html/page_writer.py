"""Makes the pages: reads the archive twice as a stream, packs what fits, writes each file whole.

The first reading reduces every attempt to a row, the second finds the few attempts whose texts are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final
from urllib.parse import quote

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.leaderboard.board_records import Board
from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.leaderboard.html.page_content import PageSources, fill
from kernelwright.agent.leaderboard.html.page_sections import Section, paged, sections
from kernelwright.agent.leaderboard.html.page_template import Machine, Shell, render
from kernelwright.agent.leaderboard.html.standings_table import tables
from kernelwright.agent.leaderboard.policy import (
    ENTRIES_SHOWN,
    KERNELS,
    PAGE_ATTEMPTS,
    PAGE_BYTES,
    RUNS_COMPARED,
    SPARE_BYTES,
)
from kernelwright.agent.leaderboard.rows import AttemptRows, read_rows
from kernelwright.agent.leaderboard.run_comparison import Change, RunComparison, compare_runs
from kernelwright.agent.leaderboard.standings import board_of
from kernelwright.agent.records.attempt_log import Attempt, Text
from kernelwright.evaluator import write_whole

TRACKS: Final = ("own", "mixed", "library")


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The bounds of one page."""

    size: int = PAGE_BYTES
    """Bytes of the file."""
    attempts: int = PAGE_ATTEMPTS
    """Attempts it lists; larger archives get several pages."""


@dataclass(frozen=True, slots=True)
class WrittenPages:
    """The files of a leaderboard."""

    files: tuple[Path, ...]
    """The page to open first, then those that it leads to."""
    attempts: int
    texts_left_out: int
    """Sources, prompts and logs for which there was no room."""
    unreadable: int
    """Texts that are missing or damaged in the archive."""


def write_pages(
    archive: Archive,
    file: Path,
    *,
    run: str | None = None,
    compare: tuple[str, str] | None = None,
    made: str,
    limits: PageLimits = PageLimits(),
) -> WrittenPages:
    """Write a leaderboard of all runs, or of one, and return the files.

    `compare` names two runs to show side by side first. `made` says when this is, for people. The folder of
    the archive lies in the workspace that commands on the page speak of.

    Raises:
        ArchiveError: a line is damaged or newer than this program, and the archive does not pass it over.
        OSError: a file cannot be written.
    """
    rows = read_rows(archive.attempts(run))
    parts = sections(rows.evaluated, most=limits.attempts)
    pages = paged(parts, most=limits.attempts)
    further = range(2, len(pages) + 2) if len(pages) > 1 else ()
    files = [file, *(file.with_name(f"{file.stem}.{number}{file.suffix}") for number in further)]
    content = PageSources(
        archive=archive,
        chosen=_chosen(archive, run, parts),
        problems=_problems(archive, rows),
        comparisons=_comparisons(rows, compare),
        runs=rows.evaluated,
        page_of={
            section.number: quote(files[number + 1].name) if len(files) > 1 else ""
            for number, page in enumerate(pages)
            for section in page
        },
    )
    found = _machines(archive, content.chosen.values())
    left_out = unreadable = 0
    for number, path in enumerate(files):
        shell = _shell(rows, files, number, found=found, made=made, limits=limits)
        listed = pages[number - 1] if number else pages[0] if len(files) == 1 and pages else []
        filled = fill(
            content,
            listed if number else parts,
            {part.number for part in listed},
            room=limits.size - SPARE_BYTES - len(render(shell).encode()),
            is_index=number == 0,
        )
        left_out += filled.left_out
        unreadable += filled.unreadable
        write_whole(path, render(shell, filled).encode())
    return WrittenPages(
        files=tuple(files), attempts=len(rows.evaluated), texts_left_out=left_out, unreadable=unreadable
    )


def _chosen(archive: Archive, run: str | None, parts: Iterable[Section]) -> dict[str, Attempt]:
    """The attempts whose texts may be shown, the best of every section before any second best."""
    shown = [
        (place, row.attempt)
        for section in parts
        for place, row in enumerate((*section.chosen, *section.failures))
    ]
    wanted = {attempt for _, attempt in sorted(shown, key=lambda pair: pair[0])[:KERNELS]}
    return {attempt.id: attempt for attempt in archive.attempts(run) if attempt.id in wanted}


def _machines(archive: Archive, attempts: Iterable[Attempt]) -> list[tuple[Machine, str]]:
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
        days.setdefault(tuple(map(name, found)), []).append(name(day))
    return [(machine, " to ".join(sorted({min(on), max(on)}))) for machine, on in sorted(days.items())]


def _problems(archive: Archive, rows: AttemptRows) -> dict[tuple[str, str], Text]:
    """The source of each problem of each run, as far as the run recorded it."""
    return {
        (run, used.id): used.source
        for run in {row.run for row in rows.evaluated}
        for used in archive.problems_used(run).values()
    }


def _comparisons(rows: AttemptRows, asked: tuple[str, str] | None) -> list[RunComparison]:
    runs = sorted({row.run for row in rows.evaluated})[-RUNS_COMPARED:]
    pairs = [pair for pair in reversed(list(combinations(runs, 2))) if pair != asked]
    found = [compare_runs(rows.evaluated, *pair) for pair in pairs]
    # Requested runs come first, then the newest with anything to compare.
    found.sort(key=lambda one: one.counts[Change.NOT_COMPARABLE] == len(one.differences))
    return [compare_runs(rows.evaluated, *asked), *found] if asked else found


def _shell(
    rows: AttemptRows,
    files: Sequence[Path],
    number: int,
    *,
    found: Sequence[tuple[Machine, str]],
    made: str,
    limits: PageLimits,
) -> Shell:
    """Everything of a page but its data, a quarter of its size at most: the standings are on the first."""
    boards = _boards(rows) if number == 0 else {}
    most = ENTRIES_SHOWN
    while True:
        shell = Shell(
            machines=found if number == 0 else (),
            made=made,
            tracks={track: tables(board, most=most) for track, board in boards.items()},
            attempts=len(rows.evaluated),
            unjudged=rows.unevaluated,
            runs=len({row.run for row in rows.evaluated}),
            problems=len({row.problem for row in rows.evaluated}),
            models=[name(model) for model in sorted({row.model for row in rows.evaluated})],
            hardware=sorted({name(row.policy.hardware or "") for row in rows.evaluated}),
            files=tuple(quote(path.name) for path in files),
            number=number,
        )
        if most <= 1 or len(render(shell).encode()) <= limits.size // 4:
            return shell
        most //= 2


def _boards(rows: AttemptRows) -> dict[str, Board]:
    """The standings over everything and, if correct kernels are of several tracks, over each of them."""
    seen = {row.track for row in rows.evaluated if row.speedup is not None}
    tracks = [track for track in TRACKS if track in seen and len(seen) > 1]
    return {"all": board_of(rows), **{track: board_of(rows, track=track) for track in tracks}}
