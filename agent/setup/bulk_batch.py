"""Asks for independent samples in bulk, through the Batch API of one endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.runner import BulkRunner, RunSummary
from kernelwright.agent.runner.bulk_runner import FOLDER, attempt_of
from kernelwright.agent.setup.batch import Watch, prompts_for, resumable, work_through
from kernelwright.agent.setup.cost_limits import prices_of
from kernelwright.agent.setup.few_shot_setup import load
from kernelwright.agent.setup.preparation import PreparedRun, RunPlace, prepare
from kernelwright.agent.setup.provider_setup import live_endpoint, provider_of
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """How replies are waited for, and whether they are evaluated once they are there."""

    poll_s: float
    waits: bool
    evaluates: bool


def ask_in_bulk(place: RunPlace, work: PreparedRun, batch: SampleBatch, on_event: Watch) -> RunSummary:
    """Send a run's questions as batches and collect the replies.

    Raises:
        UsageError, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    _refuse_settings_without_meaning(work.settings)
    in_bulk = work.settings.model_copy(update={"provider": provider_of(work.settings).bulk})
    provider, endpoint = provider_of(in_bulk), live_endpoint(in_bulk)
    prompts = prompts_for(work, place.cache)
    exemplars = load(Workspace(place.workspace), work.plan)
    with work.open_log() as log, resumable("generate", place, log.run):
        jobs = provider.open_jobs(
            log.folder / FOLDER,
            endpoint,
            prices_of(work.settings),
            attempt_of(log.run, work.plan.strategy.name),
        )
        summary = BulkRunner(
            log=log,
            jobs=jobs,
            prompts=prompts,
            exemplars=exemplars,
            on_event=on_event,
            poll_s=batch.poll_s,
            waits=batch.waits,
        ).run()
    if not batch.evaluates or summary.end not in (RunEnd.ASKED, RunEnd.INCOMPLETE):
        return summary
    again = prepare(place, RunSettings(), resume=summary.run_id)
    return work_through(place, again, on_event=on_event, asks=False)


def _refuse_settings_without_meaning(settings: RunSettings) -> None:
    budget = settings.budget
    if budget.cost_usd is not None or budget.tokens is not None or budget.seconds is not None:
        raise UsageError(
            "what a batch costs is known when it is back; bound it by --max-attempts and --reply-tokens"
        )
    if not provider_of(settings).bulk:
        raise UsageError("--batch-api needs a live endpoint: set a key, or --base-url")
    if settings.fallbacks or settings.endpoints:
        raise UsageError(
            "--fallback and endpoints do not go with --batch-api: a batch is answered by one endpoint"
        )
