"""Many problems, models and samples in one run: bounded, budgeted, resumable; the only place with threads."""

from __future__ import annotations

from agent.batch.batch import Batch
from agent.batch.bulk import Bulk
from agent.batch.events import RunSummary
from agent.batch.plan import ModelChoice, Plan, begin, read_plan, resume

__all__ = ["Batch", "Bulk", "ModelChoice", "Plan", "RunSummary", "begin", "read_plan", "resume"]
