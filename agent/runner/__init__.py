"""Runs of many problems, models and samples: bounded, budgeted, resumable, with worker threads."""

from __future__ import annotations

from kernelwright.agent.runner.batch_runner import BatchRunner
from kernelwright.agent.runner.bulk_runner import BulkRunner
from kernelwright.agent.runner.events import RunSummary
from kernelwright.agent.runner.plan import ModelChoice, Plan, begin, read_plan

__all__ = ["BatchRunner", "BulkRunner", "ModelChoice", "Plan", "RunSummary", "begin", "read_plan"]
