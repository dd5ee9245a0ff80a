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
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO, TypeAlias

from agent.archive import Archive
from agent.run import Attempt
from evaluator import Evaluation, Measurement, Status

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


def write_records(archive: Archive, runs: Iterable[str], out: Path) -> int:
    """Write every judged candidate of the runs in their layout; how many.

    Raises:
        ArchiveError: a run is damaged.
        OSError: a file exists already, or cannot be written.
    """
    written = 0
    seen: set[str] = set()
    with ExitStack() as stack:
        traces: dict[str, TextIO] = {}
        for run in runs:
            references = {used.id: used.source for used in archive.started(run).problems}
            for attempt in archive.attempts(run):
                evaluation, code = archive.evaluation(attempt), archive.code(attempt)
                source = references.get(attempt.key.problem)
                if evaluation is None or code is None or source is None:
                    continue
                definition = plain(attempt.key.problem)
                made = solution(attempt, code, archive.text(run, source), evaluation)
                if str(made["name"]) not in seen:
                    seen.add(str(made["name"]))
                    place = out / "solutions" / plain(attempt.key.model) / definition
                    _write(place / f"{made['name']}.json", made)
                if definition not in traces:
                    path = out / "traces" / f"{definition}.jsonl"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    traces[definition] = stack.enter_context(path.open("x", encoding="utf-8"))
                traces[definition].write(json.dumps(trace(attempt, evaluation)) + "\n")
                written += 1
    return written


def solution(attempt: Attempt, code: str, reference: str, evaluation: Evaluation) -> Json:
    """A candidate as they describe one."""
    backend = attempt.key.backend
    sources = {"kernel.py": code, "reference.py": reference, ENTRY: _ENTRY_SOURCE}
    hardware = evaluation.environment.device_name if evaluation.environment else ""
    return {
        "name": solution_name(attempt, evaluation),
        "definition": plain(attempt.key.problem),
        "author": attempt.key.model,
        "spec": {
            # The module's own Python builds what it needs, so that to them it is Python, whatever is inside.
            "language": "triton" if backend == "triton" else "python",
            "target_hardware": [hardware or ("cpu" if backend == "cpp" else "cuda")],
            "entry_point": f"{ENTRY}::run",
            "dependencies": ["torch", *(["triton"] if backend == "triton" else [])],
            "destination_passing_style": False,
        },
        "sources": [{"path": path, "content": _clean(text)} for path, text in sources.items()],
        "description": f"{backend} kernel for {attempt.key.problem} by {attempt.key.model}; attempt "
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
    """An id that is equal for equal problems, sizes and types."""
    config = evaluation.config
    parts = evaluation.problem_sha, config.shapes or "", config.dtype
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts)))


def solution_name(attempt: Attempt, evaluation: Evaluation) -> str:
    """Equal for equal candidates."""
    return plain(f"{attempt.key.problem}_{attempt.key.backend}_{evaluation.candidate_sha[:12]}")


def plain(name: str) -> str:
    """A name as theirs are: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "unnamed"


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
