"""Evaluates candidates against reference problems: `evaluate()`. Importing this imports no torch."""

from __future__ import annotations

from kernelwright.evaluator.analysis.sanitizers import find_cuda_tool
from kernelwright.evaluator.analysis.screening_report import KernelScreening, screen_source
from kernelwright.evaluator.backends.backend import Backend, Package
from kernelwright.evaluator.backends.registry import BACKENDS, check_packages, find_backend, guess_backend
from kernelwright.evaluator.building.build_cache import PackedBuild
from kernelwright.evaluator.building.builder import FullHeaderBuild
from kernelwright.evaluator.building.builds_ahead import BuildsElsewhere, store_builds
from kernelwright.evaluator.daemon.client import evaluate_warm, running_daemons, stop_daemons
from kernelwright.evaluator.daemon.messages import DaemonStatus
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.evaluator import Evaluator, check_ready, default_cache, evaluate
from kernelwright.evaluator.host.files import read_regular, write_whole
from kernelwright.evaluator.host.hardware import (
    Concurrency,
    cpu_name,
    evaluations_at_once,
    gpus,
    resolve_devices,
)
from kernelwright.evaluator.host.trace import begin as begin_trace
from kernelwright.evaluator.host.trace import is_on as is_traced
from kernelwright.evaluator.kernel_library import SandboxedKernel, load_kernel, screen_kernel
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
    Cancelled,
    ConfigError,
    EvaluatorError,
    KernelError,
    MachineError,
    ProblemError,
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
    Timing,
)
from kernelwright.evaluator.schema.kernel_resources import KernelResources
from kernelwright.evaluator.schema.plugins import load_plugin, plugins
from kernelwright.evaluator.schema.policy import SCORING_RULES
from kernelwright.evaluator.schema.problem import Problem, find_problems, problem_from_source, read_problem
from kernelwright.evaluator.schema.problem_report import ADVICE, ProblemFlaw, ProblemReport, Severity
from kernelwright.evaluator.schema.problem_signature import ProblemSignature, TensorFacts
from kernelwright.evaluator.schema.python_syntax import parse_python
from kernelwright.evaluator.schema.record import Record, sha256_text
from kernelwright.evaluator.schema.source_version import source_sha
from kernelwright.evaluator.schema.visible_text import one_line, replace_unseen, visible

__all__ = [
    "ADVICE",
    "BACKENDS",
    "SCORING_RULES",
    "Backend",
    "BuildsElsewhere",
    "CancelToken",
    "Cancelled",
    "Candidate",
    "Concurrency",
    "ConfigError",
    "Counters",
    "DaemonStatus",
    "Dtype",
    "Evaluation",
    "EvaluationConfig",
    "Evaluator",
    "EvaluatorError",
    "Finding",
    "FullHeaderBuild",
    "KernelCounters",
    "KernelError",
    "KernelResources",
    "KernelScreening",
    "Limits",
    "MachineError",
    "Math",
    "Measurement",
    "Mismatch",
    "Package",
    "PackedBuild",
    "Passes",
    "Problem",
    "ProblemError",
    "ProblemFlaw",
    "ProblemReport",
    "ProblemSignature",
    "Record",
    "SandboxTier",
    "SandboxedKernel",
    "Sanitization",
    "Sanitize",
    "Severity",
    "Stage",
    "Status",
    "TensorFacts",
    "Timing",
    "begin_trace",
    "check_packages",
    "check_ready",
    "cpu_name",
    "default_cache",
    "evaluate",
    "evaluate_warm",
    "evaluations_at_once",
    "find_backend",
    "find_cuda_tool",
    "find_problems",
    "gpus",
    "guess_backend",
    "is_traced",
    "load_kernel",
    "load_plugin",
    "one_line",
    "parse_python",
    "plugins",
    "probe",
    "problem_from_source",
    "read_problem",
    "read_regular",
    "replace_unseen",
    "resolve_devices",
    "running_daemons",
    "screen_kernel",
    "screen_source",
    "sha256_text",
    "source_sha",
    "stop_daemons",
    "store_builds",
    "visible",
    "write_whole",
]
