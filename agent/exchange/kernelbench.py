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

from agent.archive import Archive
from agent.imports.reading import KERNEL_FILE
from agent.run import Attempt
from evaluator import Evaluation, Measurement, Stage, Status

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


@dataclass(slots=True)
class Written:
    """What was written, and what could not be."""

    folders: list[Path] = field(default_factory=list)
    candidates: int = 0
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Attempts by the reason why they are in no folder."""


@dataclass(frozen=True, slots=True)
class _Folder:
    name: str
    results: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


def write_run(archive: Archive, run: str, out: Path) -> Written:
    """Write a run's judged candidates below `out/runs/` and its baselines below `out/timing/`.

    Raises:
        ArchiveError: the run is damaged.
        OSError: a folder exists already, or cannot be written.
    """
    written = Written()
    folders: dict[tuple[str, ...], _Folder] = {}
    baselines = Baselines()
    for attempt in archive.attempts(run):
        evaluation, code = archive.evaluation(attempt), text_of(archive, attempt)
        if evaluation is None or code is None:
            written.left_out["not judged" if evaluation is None else "no candidate"] += 1
            continue
        place = place_of(attempt)
        if place is None:
            written.left_out["its problem has no number"] += 1
            continue
        baselines.add(attempt.key.problem, evaluation)
        key = attempt.key
        folder = folders.get((key.model, key.backend, place.level))
        if folder is None:
            name = _plain(f"{run}_{key.model}_{key.backend}_level{place.level}")
            folder = folders[key.model, key.backend, place.level] = _Folder(name)
            (out / "runs" / name).mkdir(parents=True)
            written.folders.append(out / "runs" / name)
        place = _free(place, folder.taken[place.problem])
        (out / "runs" / folder.name / place.file_name).write_bytes(code.encode("utf-8", "surrogatepass"))
        folder.results[place.problem].append(result_of(place, attempt, evaluation))
        written.candidates += 1
    for folder in folders.values():
        results = {
            key: sorted(rows, key=_sample) for key, rows in sorted(folder.results.items(), key=_number)
        }
        _write(out / "runs" / folder.name / RESULTS, results)
    baselines.write(out / "timing")
    return written


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


class Baselines:
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
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.") or "unnamed"


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n", "utf-8")
