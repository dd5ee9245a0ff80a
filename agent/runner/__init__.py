"""Many problems, models and samples in one run: bounded, budgeted, resumable; the only place with threads."""

from __future__ import annotations

from kernelwright.agent.runner.batch_runner import BatchRunner
from kernelwright.agent.runner.bulk_runner import BulkRunner
from kernelwright.agent.runner.events import RunSummary
from kernelwright.agent.runner.plan import ModelChoice, Plan, begin, read_plan, resume

__all__ = ["BatchRunner", "BulkRunner", "ModelChoice", "Plan", "RunSummary", "begin", "read_plan", "resume"]
