"""Writes runs as KernelBench keeps them: candidates, `eval_results.json` and baseline timings.

A run folder is of one model, backend and level, as theirs are; `kernelwright import` reads it back. A problem
counts by the number its file name begins with. What was imported keeps the numbers it came with.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.interop.handoff import Written, bounded
from kernelwright.agent.interop.imports.reply_reader import KERNEL_FILE
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.evaluator import Evaluation, Measurement, Stage, Status

NO_TIME: Final = -1.0
"""What KernelBench writes for a time that was not measured."""

RESULTS: Final = "eval_results.json"
TIMINGS: Final = {"eager": "baseline_time_torch", "compile": "baseline_time_torch_compile_inductor_default"}
"""Their names for our baselines."""

_NUMBERED: Final = re.compile(r"level_?(?P<level>\w+)/0*(?P<problem>\d+)(?:_.*)?")
_UNBUILT: Final = frozenset({Stage.SCREEN, Stage.BUILD})

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """What KernelBench calls a candidate."""

    level: str
    problem: str
    sample: int

    @property
    def file_name(self) -> str:
        """The candidate's file."""
        return f"level_{self.level}_problem_{self.problem}_sample_{self.sample}_kernel.py"


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    results: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    owners: dict[str, str] = field(default_factory=dict)
    """The problem behind each number."""


def write_runs(archive: Archive, runs: Iterable[str], out: Path) -> Written:
    """Write judged candidates of runs below `out/runs/` and the baselines of all below `out/timing/`.

    Raises:
        ArchiveError: a line is damaged, and the archive does not pass it over.
        OSError: a folder exists already, or cannot be written.
    """
    hand = _Hand(archive, out)
    for run in runs:
        for attempt in archive.attempts(run):
            try:
                reason = hand.take(attempt)
            except ArchiveError:
                reason = "a text of it is missing or damaged"
            if reason:
                hand.written.left_out[reason] += 1
    hand.finish()
    return hand.written


class _Hand:
    """Writes candidates one by one, and at last what is said of all of them."""

    def __init__(self, archive: Archive, out: Path) -> None:
        self.written = Written()
        self._archive = archive
        self._out = out
        self._folders: dict[tuple[str, ...], _Folder] = {}
        self._baselines = BaselineTimings()

    def take(self, attempt: Attempt) -> str:
        """Write a candidate; the reason where it is in no folder.

        Raises:
            ArchiveError: a text of it is missing or damaged; nothing was written.
        """
        evaluation, code = self._archive.evaluation(attempt), text_of(self._archive, attempt)
        if evaluation is None:
            return "not judged"
        if code is None:
            return "no candidate"
        place = place_of(attempt)
        if place is None:
            return "its problem has no number"
        self._baselines.add(attempt.key.problem, evaluation)
        folder = self._folder(attempt, place.level)
        if folder.owners.setdefault(place.problem, attempt.key.problem) != attempt.key.problem:
            return "another problem has its number"
        place = _free(place, folder.taken[place.problem])
        (folder.path / place.file_name).write_bytes(code.encode("utf-8", "surrogatepass"))
        folder.results[place.problem].append(result_of(place, attempt, evaluation))
        self.written.candidates += 1
        return ""

    def finish(self) -> None:
        """Write the results of every folder, and the baselines."""
        for folder in self._folders.values():
            results = {
                key: sorted(rows, key=_sample) for key, rows in sorted(folder.results.items(), key=_number)
            }
            _write(folder.path / RESULTS, results)
        self._baselines.write(self._out / "timing")

    def _folder(self, attempt: Attempt, level: str) -> _Folder:
        key = attempt.key
        known = self._folders.get((key.run, key.model, key.backend, level))
        if known is not None:
            return known
        name = _plain(f"{key.run}_{key.model}_{key.backend}_level{level}")
        path = self._out / "runs" / name
        # Names of models that differ may look alike once they name a folder.
        number = 2
        while path.exists():
            path = path.with_name(f"{name}.{number}")
            number += 1
        path.mkdir(parents=True)
        folder = self._folders[key.run, key.model, key.backend, level] = _Folder(path)
        return folder


def text_of(archive: Archive, attempt: Attempt) -> str | None:
    """A candidate's file; one of theirs goes back as it came, even where no module could be found in it."""
    code = archive.code(attempt)
    if code is None and KERNEL_FILE.fullmatch(Path(attempt.completion.origin).name):
        return archive.reply(attempt.completion)
    return code


def place_of(attempt: Attempt) -> Place | None:
    """The level, problem and sample an attempt is known by; None for a problem without a number."""
    named = KERNEL_FILE.fullmatch(Path(attempt.completion.origin).name)
    if named is not None:
        return Place(named["level"], named["problem"], int(named["sample"]))
    numbered = _NUMBERED.fullmatch(attempt.key.problem)
    if numbered is None:
        return None
    return Place(numbered["level"], numbered["problem"], attempt.key.sample)


def result_of(place: Place, attempt: Attempt, evaluation: Evaluation) -> Json:
    """One entry of `eval_results.json`."""
    measured = evaluation.measurement if evaluation.status is Status.PASSED else None
    device = evaluation.environment
    metadata: Json = {
        "hardware": device.device_name if device else "unknown",
        "device": device.device if device else "unknown",
        "kernelwright_status": evaluation.status.value,
        "kernelwright_attempt": attempt.id,
        "kernelwright_turn": attempt.key.turn,
        "kernelwright_evaluation": attempt.evaluation.evaluation_sha if attempt.evaluation else None,
    }
    if evaluation.detail and evaluation.status is not Status.PASSED:
        metadata[_trouble(evaluation)] = evaluation.detail
    return {
        "sample_id": place.sample,
        "compiled": _is_built(evaluation),
        "correctness": evaluation.status is Status.PASSED,
        "metadata": metadata,
        "runtime": measured.candidate.median_ms if measured else NO_TIME,
        "runtime_stats": _statistics(measured, None, evaluation) if measured else {},
    }


class BaselineTimings:
    """Timings of references: the last of each problem, device and kind."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, dict[str, Json]]] = {}

    def add(self, problem: str, evaluation: Evaluation) -> None:
        """Take in what an evaluation measured."""
        measured, device = evaluation.measurement, evaluation.environment
        if measured is None or device is None:
            return
        level, _, name = problem.rpartition("/")
        for kind in measured.baselines:
            levels = self._found.setdefault((device.device_name, kind), {})
            entry = {**_statistics(measured, kind, evaluation), "hardware": device.device_name}
            levels.setdefault(level or "problems", {})[f"{name}.py"] = entry

    def write(self, folder: Path) -> None:
        """Write a folder for each device, a file for each kind."""
        for (device, kind), levels in self._found.items():
            place = folder / _plain(device)
            place.mkdir(parents=True, exist_ok=True)
            ordered = {level: dict(sorted(levels[level].items())) for level in sorted(levels)}
            _write(place / f"{TIMINGS.get(kind, kind)}.json", ordered)


def _statistics(measured: Measurement, baseline: str | None, evaluation: Evaluation) -> Json:
    """Their statistics of our turns; `mean` is our median, which is what scored."""
    timing = measured.baselines[baseline] if baseline else measured.candidate
    turns = timing.turn_ms or (timing.median_ms,)
    mean = sum(turns) / len(turns)
    deviation = (sum((turn - mean) ** 2 for turn in turns) / len(turns)) ** 0.5
    return {
        "mean": timing.median_ms,
        "std": deviation,
        "min": min(turns),
        "max": max(turns),
        "num_trials": timing.calls,
        "hardware": evaluation.environment.device_name if evaluation.environment else "unknown",
        "device": evaluation.environment.device if evaluation.environment else "unknown",
    }


def _is_built(evaluation: Evaluation) -> bool:
    """Whether it compiled; most candidates are compiled while they load, so the stage alone does not say."""
    if evaluation.status is Status.COMPILE_ERROR or evaluation.stage in _UNBUILT:
        return False
    return evaluation.status is not Status.TIMED_OUT or not any(
        build.timed_out for build in evaluation.builds
    )


def _trouble(evaluation: Evaluation) -> str:
    match evaluation.status:
        case Status.COMPILE_ERROR:
            return "compilation_error"
        case Status.WRONG_VALUES | Status.WRONG_SHAPE | Status.WRONG_DTYPE | Status.NONDETERMINISTIC:
            return "correctness_issue"
        case _:
            return "runtime_error"


def _free(place: Place, taken: set[int]) -> Place:
    """The place itself, or the next one: turns of one conversation share a sample."""
    sample = place.sample
    while sample in taken:
        sample += 1
    taken.add(sample)
    return Place(place.level, place.problem, sample)


def _sample(row: Json) -> int:
    return int(str(row["sample_id"]))


def _number(item: tuple[str, Iterable[object]]) -> tuple[int, str]:
    return int(item[0]) if item[0].isdecimal() else 0, item[0]


def _plain(name: str) -> str:
    return bounded(re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.") or "unnamed")


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n", "utf-8")
