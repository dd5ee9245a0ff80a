"""The places where candidates are evaluated: this machine, or services elsewhere. Imports no torch."""

from __future__ import annotations

from kernelwright.agent.evaluation.evaluation_site import (
    BuildsPlainly,
    Evaluate,
    EvaluationHooks,
    EvaluationRequest,
    EvaluationSite,
)

__all__ = ["BuildsPlainly", "Evaluate", "EvaluationHooks", "EvaluationRequest", "EvaluationSite"]
