"""Judges candidates against reference problems. `evaluate()` is the door; importing this imports no torch."""

from __future__ import annotations

from kernelwright.evaluator.backends.registry import BACKENDS, Backend, check_packages, find_backend
from kernelwright.evaluator.building.full_header_check import PlainBuild
from kernelwright.evaluator.driver.cancellation import Stop
from kernelwright.evaluator.driver.preflight import check_ready
from kernelwright.evaluator.evaluator import Evaluator, default_cache, evaluate, source_sha
from kernelwright.evaluator.host.hardware import evaluations_at_once, gpus, resolve_devices
from kernelwright.evaluator.kernel_library import load_kernel
from kernelwright.evaluator.sandbox import probe
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import (
    Dtype,
    EvaluationConfig,
    Limits,
    Math,
    Passes,
    SandboxTier,
    Sanitize,
)
from kernelwright.evaluator.schema.errors import (
    ConfigError,
    EvaluatorError,
    MachineError,
    ProblemError,
    Stopped,
)
from kernelwright.evaluator.schema.evaluation import (
    Counters,
    Evaluation,
    Finding,
    KernelCounters,
    Measurement,
    Mismatch,
    Sanitization,
    Stage,
    Status,
)
from kernelwright.evaluator.schema.problem import Problem, find_problems, problem_from_source, read_problem
from kernelwright.evaluator.schema.problem_report import ADVICE, Remark, Severity, Vetting
from kernelwright.evaluator.schema.problem_signature import Description, TensorFacts
from kernelwright.evaluator.schema.python_syntax import parse_python
from kernelwright.evaluator.schema.record import Record, sha256_text

__all__ = [
    "ADVICE",
    "BACKENDS",
    "Backend",
    "Candidate",
    "ConfigError",
    "Counters",
    "Description",
    "Dtype",
    "Evaluation",
    "EvaluationConfig",
    "Evaluator",
    "EvaluatorError",
    "Finding",
    "KernelCounters",
    "Limits",
    "MachineError",
    "Math",
    "Measurement",
    "Mismatch",
    "Passes",
    "PlainBuild",
    "Problem",
    "ProblemError",
    "Record",
    "Remark",
    "SandboxTier",
    "Sanitization",
    "Sanitize",
    "Severity",
    "Stage",
    "Status",
    "Stop",
    "Stopped",
    "TensorFacts",
    "Vetting",
    "check_packages",
    "check_ready",
    "default_cache",
    "evaluate",
    "evaluations_at_once",
    "find_backend",
    "find_problems",
    "gpus",
    "load_kernel",
    "parse_python",
    "probe",
    "problem_from_source",
    "read_problem",
    "resolve_devices",
    "sha256_text",
    "source_sha",
]
