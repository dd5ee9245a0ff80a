"""Writes flashinfer-bench's records: Definitions of problems, Solutions of candidates, Traces of evaluations.

flashinfer-bench's kernels are functions of tensors, ours are modules that hold parameters. A Solution
therefore carries the reference beside the candidate, and its entry point builds the module once. The tensors
of a Definition come from `Evaluator.signature`, in the sandbox, remembered by content.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive
from kernelwright.agent.interop.handoff import RunExporter, bounded, write_json
from kernelwright.agent.leaderboard.display_text import without_folders
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.score_policy import ScorePolicy, exclusion_reason
from kernelwright.agent.records.strict_json import plain as plain_json
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import (
    BACKENDS,
    Dtype,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Measurement,
    Mismatch,
    Passes,
    Problem,
    ProblemSignature,
    Status,
    TensorFacts,
    problem_from_source,
)

Json: TypeAlias = dict[str, object]

DTYPES: Final = frozenset(
    {"float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "bool"}
    | {"float8_e4m3", "float8_e5m2"}
)
"""Types of tensors in a Definition."""

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
"""flashinfer-bench's names of our statuses; every other is `RUNTIME_ERROR`, and named in the log."""

ENTRY: Final = "main.py"
_RUN_SOURCE: Final = """

_models = {{}}


def run(*inputs):
    device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), torch.device("cpu"))
    if device not in _models:
        torch.manual_seed(0)
        _models[device] = {model}(*get_init_inputs()).to(device).eval()
    with torch.no_grad():
        return _models[device](*inputs)
"""
_ENTRY_SOURCE: Final = (
    '"""Builds the module once and calls it."""\n\nimport torch\n\nfrom kernel import ModelNew\n'
    "from reference import get_init_inputs\n" + _RUN_SOURCE.format(model="ModelNew")
)


class FlashinferWriter:
    """Writes each solution once, each evaluation as a trace, and definitions of the problems."""

    def __init__(
        self, archive: Archive, out: Path, open: Callable[[], AbstractContextManager[Evaluator]] = Evaluator
    ) -> None:
        """`open` makes the evaluator that describes problems."""
        self._archive = archive
        self._out = out
        self._open = open
        self._seen: set[str] = set()
        self._definitions: dict[str, tuple[str, str, EvaluationConfig]] = {}
        """Problem id, source and policy by name."""

    def take(self, attempt: Attempt, evaluation: Evaluation, policy: ScorePolicy) -> str:
        """Implements `RunWriter.take`."""
        code = self._archive.code(attempt)
        if code is None:
            return "no candidate"
        used = self._archive.problems_used(attempt.key.run).get(attempt.key.problem)
        if used is None:
            return "its run did not record the problem"
        source = self._archive.text(attempt.key.run, used.source)
        try:
            reference = with_shapes(source, evaluation.config.shapes)
        except EvaluatorError:
            return "its problem lacks the shapes"
        made = solution(attempt, code, reference, evaluation)
        name, definition = str(made["name"]), str(made["definition"])
        known = self._definitions.setdefault(definition, (attempt.key.problem, source, evaluation.config))
        if known[0] != attempt.key.problem:
            return "another problem has its name"
        if name not in self._seen:
            self._seen.add(name)
            folder = self._out / "solutions" / plain(attempt.key.model) / definition
            write_json(folder / f"{name}.json", made)
        path = self._out / "traces" / f"{definition}.{policy.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened for each line: there may be more definitions than a process may have open files.
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(trace(attempt, evaluation, policy)) + "\n")
        return ""

    def finish(self) -> str:
        """Write the definitions; return how many lack one, and why."""
        missing: Counter[str] = Counter()
        with self._open() as evaluator:
            for name, (problem_id, source, config) in self._definitions.items():
                try:
                    problem = problem_from_source(source, problem_id)
                    made = definition_of(name, problem, evaluator.signature(problem, config))
                except EvaluatorError as error:
                    missing[str(error)] += 1
                    continue
                if made is None:
                    missing["its tensors have sizes or types that flashinfer-bench lacks"] += 1
                else:
                    write_json(self._out / "definitions" / "kernelwright" / f"{name}.json", made)
        reasons = "; ".join(f"{count}: {reason}" for reason, count in missing.items())
        return f"problems without a definition, {reasons}" if reasons else ""


def with_shapes(source: str, shapes: str | None) -> str:
    """A reference with the constants of a shape set, assigned after its own as the evaluator does."""
    chosen = problem_from_source(source, "problem").overrides(shapes) if shapes else {}
    return source + "".join(f"\n{name} = {value!r}" for name, value in chosen.items())


def definition_of(name: str, problem: Problem, signature: ProblemSignature) -> Json | None:
    """A problem as a Definition with constant axes; None where its tensors cannot be named there."""
    tensors = [*signature.inputs, *signature.outputs]
    sizes = sorted({size for tensor in tensors for size in tensor.shape})
    if not (sizes and all(sizes) and signature.inputs and signature.outputs):
        return None
    if not DTYPES.issuperset(tensor.dtype for tensor in tensors):
        return None
    source = with_shapes(problem.source, signature.shapes)
    return {
        "name": name,
        "type": "kernelwright",
        "axes": {f"n{size}": {"type": "const", "value": size} for size in sizes},
        "inputs": _tensor_specs(signature.inputs, "input"),
        "outputs": _tensor_specs(signature.outputs, "output"),
        "reference": whole_characters(source) + _RUN_SOURCE.format(model="Model"),
        "description": f"kernelwright's problem {problem.id}, SHA-256 {problem.sha}",
    }


def _tensor_specs(tensors: Iterable[TensorFacts], kind: str) -> Json:
    return {
        tensor.name or f"{kind}_{number}": {
            "shape": [f"n{size}" for size in tensor.shape],
            "dtype": tensor.dtype,
        }
        for number, tensor in enumerate(tensors)
    }


def solution(attempt: Attempt, code: str, reference: str, evaluation: Evaluation) -> Json:
    """A candidate as a Solution."""
    backend = BACKENDS[attempt.key.backend]
    sources = {"kernel.py": code, "reference.py": reference, ENTRY: _ENTRY_SOURCE}
    return {
        "name": solution_name(attempt, evaluation),
        "definition": definition_name(attempt, evaluation),
        "author": attempt.key.model,
        "spec": {
            # The module builds its own extension, so that it is Python to flashinfer-bench.
            "language": backend.interchange_language,
            # The kind alone: one solution has traces of several devices.
            "target_hardware": [backend.device],
            "entry_point": f"{ENTRY}::run",
            "dependencies": ["torch", *(package.name for package in backend.requires)],
            "destination_passing_style": False,
        },
        "sources": [{"path": path, "content": whole_characters(text)} for path, text in sources.items()],
        "description": f"{backend.name} kernel for {attempt.key.problem} by {attempt.key.model}; attempt "
        f"{attempt.id} of run {attempt.key.run}; licence: {attempt.completion.license or 'not stated'}",
    }


def trace(attempt: Attempt, evaluation: Evaluation, policy: ScorePolicy) -> Json:
    """An evaluation as a Trace."""
    status = STATUSES.get(evaluation.status, "RUNTIME_ERROR")
    environment = evaluation.environment
    libs = {"torch": environment.torch, "cuda": environment.cuda} if environment else {}
    unfit = exclusion_reason(evaluation)
    detail = f"not to be compared: {unfit}" if unfit else evaluation.detail
    record: Json = {
        "status": status,
        "environment": {
            "hardware": environment.device_name if environment else "unknown",
            "libs": {name: version for name, version in libs.items() if version}
            | {"kernelwright_policy": policy.id},
        },
        "timestamp": evaluation.evaluated_at or attempt.completion.completed_at,
        "log": without_folders(f"{evaluation.status}: {detail}") + f"\npolicy {policy.id}: {policy}",
    }
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        record["correctness"] = _correctness(evaluation)
    if status == "PASSED":
        record["performance"] = _performance(None if unfit else evaluation.measurement)
    return {
        "definition": definition_name(attempt, evaluation),
        "workload": {"axes": {}, "inputs": {}, "uuid": workload(evaluation.problem_sha, policy)},
        "solution": solution_name(attempt, evaluation),
        "evaluation": record,
    }


def definition_name(attempt: Attempt, evaluation: Evaluation) -> str:
    """Equal for equal problems with equal shapes, types and passes."""
    config = evaluation.config
    dtype = "" if config.dtype is Dtype.AS_IS else config.dtype
    passes = "" if config.passes is Passes.FORWARD else config.passes
    return plain("_".join(filter(None, (attempt.key.problem, config.shapes, dtype, passes))))


def workload(problem_sha: str, policy: ScorePolicy) -> str:
    """An id, equal for equal problems under one policy: there solutions of one workload are compared."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{problem_sha}\0{policy.model_dump_json()}"))


def solution_name(attempt: Attempt, evaluation: Evaluation) -> str:
    """Equal for equal candidates."""
    return f"{plain(f'{attempt.key.problem}_{attempt.key.backend}')}_{evaluation.candidate_sha[:12]}"


def plain(name: str) -> str:
    """A name of letters, digits and underscores."""
    return bounded(re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "unnamed")


def _performance(measured: Measurement | None) -> Json:
    if measured is None:
        # A pass without a time does not exist there.
        return {"latency_ms": 0.0, "reference_latency_ms": 0.0, "speedup_factor": 0.0}
    return {
        "latency_ms": measured.candidate.median_ms,
        "reference_latency_ms": measured.baselines[measured.against].median_ms,
        "speedup_factor": measured.speedup,
    }


def _correctness(evaluation: Evaluation) -> Json:
    """Errors of the elements in the verification record; NaN, which a Trace allows, where it has none."""
    verification = evaluation.verification
    mismatch = verification.mismatch if verification else None
    extra: Json = {}
    if verification:
        # Our error is a multiple of the reference's own rounding error, which is neither of theirs.
        extra = {"error_ratio": verification.error_ratio, "limit_ratio": verification.limit_ratio}
    return {
        "max_relative_error": plain_json(_relative_error(mismatch)),
        "max_absolute_error": plain_json(mismatch.max_abs_error if mismatch else math.nan),
        "extra": plain_json(extra) or None,
    }


def _relative_error(mismatch: Mismatch | None) -> float:
    pairs = zip(mismatch.expected, mismatch.actual, strict=False) if mismatch else ()
    return max((abs(got - want) / abs(want) for want, got in pairs if want), default=math.nan)


EXPORTER: Final = RunExporter(
    "flashinfer", "flashinfer-bench's definitions, solutions and traces", FlashinferWriter
)
