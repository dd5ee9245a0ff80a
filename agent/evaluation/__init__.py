"""The places where candidates are evaluated: this machine, services, or a cluster. Imports no torch."""

from __future__ import annotations

from kernelwright.agent.evaluation.evaluation_site import (
    BuildsPlainly,
    CandidateQuarantined,
    Evaluate,
    EvaluationHooks,
    EvaluationRequest,
    EvaluationSite,
    RemoteEvaluationSite,
)

__all__ = [
    "BuildsPlainly",
    "CandidateQuarantined",
    "Evaluate",
    "EvaluationHooks",
    "EvaluationRequest",
    "EvaluationSite",
    "RemoteEvaluationSite",
]
