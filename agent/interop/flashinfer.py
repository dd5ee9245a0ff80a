"""Writes flashinfer-bench's records: a Solution for every candidate, a Trace for every evaluation of one.

Their kernels are functions of tensors, ours are modules that hold parameters. A Solution therefore carries
the reference beside the candidate, and its entry point builds the module as the reference says, once. Their
Definitions name every axis of every tensor, which only running a problem can tell; none is written.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.interop.handoff import Written, bounded
from kernelwright.agent.records.attempt_log import Attempt, Text
from kernelwright.evaluator import BACKENDS, Evaluation, Measurement, Status

Json: TypeAlias = dict[str, object]

STATUSES: Final = MappingProxyType(
    {
        Status.PASSED: "PASSED",
        Status.WRONG_SHAPE: "INCORRECT_SHAPE",
        Status.WRONG_DTYPE: "INCORRECT_DTYPE",
        Status.WRONG_VALUES: "INCORRECT_NUMERICAL",
        Status.NONDETERMINISTIC: "INCORRECT_NUMERICAL",
        Status.COMPILE_ERROR: "COMPILE_ERROR",
        Status.TIMED_OUT: "TIMEOUT",
    }
)
"""Their names of our statuses; every other is `RUNTIME_ERROR` to them, and named in the log."""

ENTRY: Final = "main.py"
_ENTRY_SOURCE: Final = '''\
"""Builds the module once, as the reference says, and calls it."""

import torch

from kernel import ModelNew
from reference import get_init_inputs

_models = {}


def run(*inputs):
    device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), torch.device("cpu"))
    if device not in _models:
        torch.manual_seed(0)
        _models[device] = ModelNew(*get_init_inputs()).to(device).eval()
    with torch.no_grad():
        return _models[device](*inputs)
'''


def write_records(archive: Archive, runs: Iterable[str], out: Path) -> Written:
    """Write every judged candidate of the runs in their layout.

    Raises:
        ArchiveError: a line is damaged, and the archive does not pass it over.
        OSError: a file exists already, or cannot be written.
    """
    hand = _Hand(archive, out)
    for run in runs:
        references = archive.problems_used(run)
        for attempt in archive.attempts(run):
            used = references.get(attempt.key.problem)
            try:
                reason = hand.take(attempt, used.source if used else None)
            except ArchiveError:
                reason = "a text of it is missing or damaged"
            if reason:
                hand.written.left_out[reason] += 1
    return hand.written


class _Hand:
    """Writes candidates one by one, each solution once."""

    def __init__(self, archive: Archive, out: Path) -> None:
        self.written = Written()
        self._archive = archive
        self._out = out
        self._seen: set[str] = set()
        self._owners: dict[str, str] = {}
        """The problem behind each definition."""

    def take(self, attempt: Attempt, reference: Text | None) -> str:
        """Write a candidate and its evaluation; the reason where nothing was written.

        Raises:
            ArchiveError: a text of it is missing or damaged; nothing was written.
        """
        evaluation, code = self._archive.evaluation(attempt), self._archive.code(attempt)
        if evaluation is None:
            return "not judged"
        if code is None:
            return "no candidate"
        if reference is None:
            return "its run did not record the problem"
        made = solution(attempt, code, self._archive.text(attempt.key.run, reference), evaluation)
        name, definition = str(made["name"]), str(made["definition"])
        if self._owners.setdefault(definition, attempt.key.problem) != attempt.key.problem:
            return "another problem has its name"
        if name not in self._seen:
            self._seen.add(name)
            _write(self._out / "solutions" / plain(attempt.key.model) / definition / f"{name}.json", made)
        path = self._out / "traces" / f"{definition}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened anew for each line: there may be more definitions than a process may have files open.
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(trace(attempt, evaluation)) + "\n")
        self.written.candidates += 1
        return ""


def solution(attempt: Attempt, code: str, reference: str, evaluation: Evaluation) -> Json:
    """A candidate as they describe one."""
    backend = BACKENDS[attempt.key.backend]
    sources = {"kernel.py": code, "reference.py": reference, ENTRY: _ENTRY_SOURCE}
    hardware = evaluation.environment.device_name if evaluation.environment else ""
    return {
        "name": solution_name(attempt, evaluation),
        "definition": plain(attempt.key.problem),
        "author": attempt.key.model,
        "spec": {
            # The module's own Python builds what it needs, so that to them it is Python, whatever is inside.
            "language": backend.interchange_language,
            "target_hardware": [hardware or (backend.device)],
            "entry_point": f"{ENTRY}::run",
            "dependencies": ["torch", *(package.name for package in backend.requires)],
            "destination_passing_style": False,
        },
        "sources": [{"path": path, "content": _clean(text)} for path, text in sources.items()],
        "description": f"{backend.name} kernel for {attempt.key.problem} by {attempt.key.model}; attempt "
        f"{attempt.id} of run {attempt.key.run}; licence: {attempt.completion.license or 'not stated'}",
    }


def trace(attempt: Attempt, evaluation: Evaluation) -> Json:
    """An evaluation as they describe one."""
    status = STATUSES.get(evaluation.status, "RUNTIME_ERROR")
    environment = evaluation.environment
    libs = {"torch": environment.torch, "cuda": environment.cuda} if environment else {}
    judged: Json = {
        "status": status,
        "environment": {
            "hardware": environment.device_name if environment else "unknown",
            "libs": {name: version for name, version in libs.items() if version},
        },
        "timestamp": evaluation.evaluated_at or attempt.completion.completed_at,
        "log": _clean(f"{evaluation.status}: {evaluation.detail}"),
    }
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        judged["correctness"] = _correctness(evaluation)
    if status == "PASSED":
        judged["performance"] = _performance(evaluation.measurement)
    return {
        "definition": plain(attempt.key.problem),
        "workload": {"axes": {}, "inputs": {}, "uuid": workload(evaluation)},
        "solution": solution_name(attempt, evaluation),
        "evaluation": judged,
    }


def workload(evaluation: Evaluation) -> str:
    """An id that is equal for equal problems under equal terms: sizes, types, precision, passes."""
    config = evaluation.config
    parts = evaluation.problem_sha, config.shapes or "", config.dtype, config.math, config.passes
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts)))


def solution_name(attempt: Attempt, evaluation: Evaluation) -> str:
    """Equal for equal candidates."""
    return f"{plain(f'{attempt.key.problem}_{attempt.key.backend}')}_{evaluation.candidate_sha[:12]}"


def plain(name: str) -> str:
    """A name as theirs are: letters, digits and underscores."""
    return bounded(re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "unnamed")


def _performance(measured: Measurement | None) -> Json:
    if measured is None:
        # They know no pass without a time.
        return {"latency_ms": 0.0, "reference_latency_ms": 0.0, "speedup_factor": 0.0}
    return {
        "latency_ms": measured.candidate.median_ms,
        "reference_latency_ms": measured.baselines[measured.against].median_ms,
        "speedup_factor": measured.speedup,
    }


def _correctness(evaluation: Evaluation) -> Json:
    verification = evaluation.verification
    mismatch = verification.mismatch if verification else None
    extra: Json = {}
    if verification:
        # Our error is a multiple of the reference's own rounding error, which is neither of theirs.
        extra = {"error_ratio": verification.error_ratio, "limit_ratio": verification.limit_ratio}
    return {
        "max_relative_error": 0.0,
        "max_absolute_error": mismatch.max_abs_error if mismatch else 0.0,
        "extra": extra or None,
    }


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
