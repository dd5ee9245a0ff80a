"""Judges candidates against reference problems. `evaluate()` is the door; importing this imports no torch."""

from __future__ import annotations

from evaluator.backends import BACKENDS, Backend, check_packages, find_backend
from evaluator.candidate import Candidate
from evaluator.config import Dtype, EvaluationConfig, Limits, Math, Passes, SandboxTier, Sanitize
from evaluator.description import Description, TensorFacts
from evaluator.errors import ConfigError, EvaluatorError, MachineError, ProblemError, Stopped
from evaluator.evaluation import (
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
from evaluator.flaws import ADVICE, Remark, Severity, Vetting
from evaluator.kept import load_kernel
from evaluator.machine import evaluations_at_once, gpus, resolve_devices
from evaluator.pipeline import Evaluator, default_cache, evaluate, source_sha
from evaluator.plainly import PlainBuild
from evaluator.problem import Problem, find_problems, problem_from_source, read_problem
from evaluator.readiness import check_ready
from evaluator.record import Record, sha256_text
from evaluator.sandbox import probe
from evaluator.stopping import Stop
from evaluator.syntax import parse_python

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
