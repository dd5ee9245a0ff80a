"""Judges candidates against reference problems. `evaluate()` is the door; importing this imports no torch."""

from __future__ import annotations

from evaluator.backends import BACKENDS, Backend, find_backend
from evaluator.candidate import Candidate
from evaluator.config import Dtype, EvaluationConfig, Limits, Math, SandboxTier, Sanitize
from evaluator.errors import ConfigError, EvaluatorError, MachineError, ProblemError
from evaluator.evaluation import Evaluation, Finding, Measurement, Mismatch, Sanitization, Stage, Status
from evaluator.flaws import ADVICE, Remark, Severity, Vetting
from evaluator.kept import load_kernel
from evaluator.pipeline import Evaluator, evaluate
from evaluator.problem import Problem, find_problems, problem_from_source, read_problem
from evaluator.record import Record, sha256_text
from evaluator.sandbox import probe

__all__ = [
    "ADVICE",
    "BACKENDS",
    "Backend",
    "Candidate",
    "ConfigError",
    "Dtype",
    "Evaluation",
    "EvaluationConfig",
    "Evaluator",
    "EvaluatorError",
    "Finding",
    "Limits",
    "MachineError",
    "Math",
    "Measurement",
    "Mismatch",
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
    "Vetting",
    "evaluate",
    "find_backend",
    "find_problems",
    "load_kernel",
    "probe",
    "problem_from_source",
    "read_problem",
    "sha256_text",
]
