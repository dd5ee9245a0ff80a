"""Writes runs in KernelBench's layout: candidates, `eval_results.json` and baseline timings.

A run folder holds one model, backend, level and policy; `kernelwright import` reads it back. Baselines lie in
a folder of the same policy, since a ratio of times measured on other terms means nothing. A problem is
identified by the number its file name begins with. Imported candidates keep their numbers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter
from pathlib import Path
from statistics import pstdev
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive
from kernelwright.agent.interop.handoff import RunExporter, bounded, write_json
from kernelwright.agent.interop.imports.reply_reader import KERNEL_FILE
from kernelwright.agent.leaderboard.display_text import without_folders
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.score_policy import ScorePolicy, exclusion_reason
from kernelwright.evaluator import Evaluation, Stage, Status, Timing

NO_TIME: Final = -1.0
"""KernelBench's mark for a time that was not measured."""

RESULTS: Final = "eval_results.json"
TIMINGS: Final = {"eager": "baseline_time_torch", "compile": "baseline_time_torch_compile_inductor_default"}
"""KernelBench's names of our baselines."""

_NUMBERED: Final = re.compile(r"level_?(?P<level>\w+)/0*(?P<problem>\d+)(?:_.*)?")
_UNBUILT: Final = frozenset({Stage.SCREEN, Stage.BUILD})

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class KernelBenchId:
    """KernelBench's name of a candidate."""

    level: str
    problem: str
    sample: int


@dataclass(frozen=True, slots=True)
class _RunFolder:
    path: Path
    results: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    owners: dict[str, str] = field(default_factory=dict)
    """The problem behind each number."""


class KernelBenchWriter:
    """Writes candidates below `out/runs/` and the baselines of all of them below `out/timing/`."""

    def __init__(self, archive: Archive, out: Path) -> None:
        self._archive = archive
        self._out = out
        self._folders: dict[tuple[str, ...], _RunFolder] = {}
        self._baselines: dict[tuple[str, str], dict[str, dict[str, Json]]] = {}
        """By folder and kind: the latest timing of each problem, by level."""

    def take(self, attempt: Attempt, evaluation: Evaluation, policy: ScorePolicy) -> str:
        """Implements `RunWriter.take`."""
        code = text_of(self._archive, attempt)
        if code is None:
            return "no candidate"
        place = place_of(attempt)
        if place is None:
            return "its problem has no number"
        self._add_baselines(attempt.key.problem, evaluation, policy)
        folder = self._folder(attempt, place.level, policy)
        if folder.owners.setdefault(place.problem, attempt.key.problem) != attempt.key.problem:
            return "another problem has its number"
        # The sample itself, or the next free one: turns of one conversation share a sample.
        taken = folder.taken[place.problem]
        place = replace(place, sample=next(number for number in count(place.sample) if number not in taken))
        taken.add(place.sample)
        name = f"level_{place.level}_problem_{place.problem}_sample_{place.sample}_kernel.py"
        (folder.path / name).write_bytes(code.encode("utf-8", "surrogatepass"))
        folder.results[place.problem].append(result_of(place, attempt, evaluation, policy))
        return ""

    def finish(self) -> str:
        """Write the results of every folder, and the baselines."""
        for folder in self._folders.values():
            order = sorted(folder.results, key=lambda name: (int(name) if name.isdecimal() else 0, name))
            by_sample = itemgetter("sample_id")
            results = {name: sorted(folder.results[name], key=by_sample) for name in order}
            write_json(folder.path / RESULTS, results)
        for (name, kind), levels in self._baselines.items():
            ordered = {level: dict(sorted(levels[level].items())) for level in sorted(levels)}
            write_json(self._out / "timing" / name / f"{TIMINGS.get(kind, kind)}.json", ordered)
        return ""

    def _add_baselines(self, problem: str, evaluation: Evaluation, policy: ScorePolicy) -> None:
        measured, device = evaluation.measurement, evaluation.environment
        # Only timings that nothing disturbed.
        if measured is None or device is None or exclusion_reason(evaluation):
            return
        folder = _plain(f"{policy.id}_{device.device_name}")
        level, _, name = problem.rpartition("/")
        for kind, timing in measured.baselines.items():
            levels = self._baselines.setdefault((folder, kind), {})
            entry = _statistics(timing, evaluation) | {"kernelwright_policy": f"{policy.id}: {policy}"}
            levels.setdefault(level or "problems", {})[f"{name}.py"] = entry

    def _folder(self, attempt: Attempt, level: str, policy: ScorePolicy) -> _RunFolder:
        key = attempt.key
        place = key.run, key.model, key.backend, level, policy.id
        if place in self._folders:
            return self._folders[place]
        # The policy comes first: a long name loses its end.
        name = _plain(f"{policy.id}_{key.run}_{key.model}_{key.backend}_level{level}")
        path = self._out / "runs" / name
        # Two names of models may become one name of a folder.
        number = 2
        while path.exists():
            path = path.with_name(f"{name}.{number}")
            number += 1
        path.mkdir(parents=True)
        folder = self._folders[place] = _RunFolder(path)
        return folder


def text_of(archive: Archive, attempt: Attempt) -> str | None:
    """A candidate's source; an imported file is returned unchanged, even where it holds no module."""
    code = archive.code(attempt)
    if code is None and KERNEL_FILE.fullmatch(Path(attempt.completion.origin).name):
        return archive.reply(attempt.completion)
    return code


def place_of(attempt: Attempt) -> KernelBenchId | None:
    """The KernelBench name of an attempt; None for a problem without a number."""
    named = KERNEL_FILE.fullmatch(Path(attempt.completion.origin).name)
    if named is not None:
        return KernelBenchId(named["level"], named["problem"], int(named["sample"]))
    numbered = _NUMBERED.fullmatch(attempt.key.problem)
    if numbered is None:
        return None
    return KernelBenchId(numbered["level"], numbered["problem"], attempt.key.sample)


def result_of(place: KernelBenchId, attempt: Attempt, evaluation: Evaluation, policy: ScorePolicy) -> Json:
    """One entry of `eval_results.json`; a time that is not to be compared is none there, and says why."""
    unfit = exclusion_reason(evaluation)
    measured = evaluation.measurement if evaluation.status is Status.PASSED and not unfit else None
    metadata: Json = {
        **_device(evaluation),
        "kernelwright_policy": f"{policy.id}: {policy}",
        "kernelwright_unfit": unfit,
        "kernelwright_status": evaluation.status.value,
        "kernelwright_attempt": attempt.id,
        "kernelwright_turn": attempt.key.turn,
        "kernelwright_evaluation": attempt.evaluation.evaluation_sha if attempt.evaluation else None,
    }
    if evaluation.detail and evaluation.status is not Status.PASSED:
        metadata[_error_kind(evaluation)] = without_folders(evaluation.detail)
    return {
        "sample_id": place.sample,
        "compiled": _is_built(evaluation),
        "correctness": evaluation.status is Status.PASSED,
        "metadata": metadata,
        "runtime": measured.candidate.median_ms if measured else NO_TIME,
        "runtime_stats": _statistics(measured.candidate, evaluation) if measured else {},
    }


def _statistics(timing: Timing, evaluation: Evaluation) -> Json:
    """KernelBench's statistics of our turns; `mean` is our median, which makes the score."""
    turns = timing.turn_ms or (timing.median_ms,)
    return {
        "mean": timing.median_ms,
        "std": pstdev(turns),
        "min": min(turns),
        "max": max(turns),
        "num_trials": timing.calls,
        **_device(evaluation),
    }


def _device(evaluation: Evaluation) -> Json:
    device = evaluation.environment
    if device is None:
        return {"hardware": "unknown", "device": "unknown"}
    return {"hardware": device.device_name, "device": device.device}


def _is_built(evaluation: Evaluation) -> bool:
    """Return whether it compiled; most candidates compile while they load, the stage alone does not tell."""
    if evaluation.status is Status.COMPILE_ERROR or evaluation.stage in _UNBUILT:
        return False
    return evaluation.status is not Status.TIMED_OUT or not any(
        build.timed_out for build in evaluation.builds
    )


def _error_kind(evaluation: Evaluation) -> str:
    match evaluation.status:
        case Status.COMPILE_ERROR:
            return "compilation_error"
        case Status.WRONG_VALUES | Status.WRONG_SHAPE | Status.WRONG_DTYPE | Status.NONDETERMINISTIC:
            return "correctness_issue"
        case _:
            return "runtime_error"


def _plain(name: str) -> str:
    return bounded(re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.") or "unnamed")


EXPORTER: Final = RunExporter(
    "kernelbench", "KernelBench run folders and baseline timings", KernelBenchWriter
)
