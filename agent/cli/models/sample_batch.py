"""The work of `kernelwright generate`: samples asked one by one or in bulk, judged if asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.agent.cli.models.run_summary import print_end
from kernelwright.agent.cli.terminal.failures import Usage
from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.runner import BulkRunner, RunSummary
from kernelwright.agent.runner.bulk_runner import FOLDER, attempt_of
from kernelwright.agent.setup.cost_limits import prices_of
from kernelwright.agent.setup.few_shot_setup import load
from kernelwright.agent.setup.preparation import PreparedRun, undertake
from kernelwright.agent.setup.provider_setup import live_endpoint, provider_of
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.session import Session, Shown, follower, prompts_for, way_back, work_through
from kernelwright.agent.strategies import Independent
from kernelwright.agent.workspace import Workspace

INDEPENDENT_SAMPLES: Final = "sample"
"""The strategy of a run that `generate` begins."""


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """How replies are waited for, and what happens to them."""

    poll_s: float
    waits: bool
    evaluate: bool


def send(
    session: Session,
    given: Mapping[str, object],
    errand: SampleBatch,
    *,
    config: Path | None,
    resume: str | None,
) -> int:
    """Begin or go on with a run of samples; returns the exit status.

    Raises:
        Usage, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    forced = given if resume is not None else {**given, "strategy": INDEPENDENT_SAMPLES}
    work = undertake(session.place, forced, config=config, resume=resume)
    if work.plan.strategy.independent is not Independent.ATTEMPT or work.plan.others:
        raise Usage(f"generate asks for independent samples; go on with this one by `run --resume {resume}`")
    if work.settings.batch_api:
        summary = _in_bulk(session, work, errand)
    else:
        summary = work_through(session, work, judges=errand.evaluate)
    if session.shown is not Shown.JSON_LINES:
        print_end(Workspace(session.workspace), summary, bulk=work.settings.batch_api)
    return summary.exit_code


def _in_bulk(session: Session, work: PreparedRun, errand: SampleBatch) -> RunSummary:
    _refuse_what_bulk_cannot(work.settings)
    in_bulk = work.settings.model_copy(update={"provider": provider_of(work.settings).bulk})
    provider, endpoint = provider_of(in_bulk), live_endpoint(in_bulk)
    prompts = prompts_for(work, session.cache)
    exemplars = load(Workspace(session.workspace), work.plan)
    with (
        work.open_log() as log,
        way_back("generate", session, log.run),
        follower(session.shown) as watch,
    ):
        jobs = provider.open_jobs(
            log.folder / FOLDER,
            endpoint,
            prices_of(work.settings),
            attempt_of(log.run, work.plan.strategy.name),
        )
        bulk = BulkRunner(
            log=log,
            jobs=jobs,
            prompts=prompts,
            exemplars=exemplars,
            on_event=watch,
            poll_s=errand.poll_s,
            waits=errand.waits,
        )
        summary = bulk.run()
    if not errand.evaluate or summary.end not in (RunEnd.ASKED, RunEnd.INCOMPLETE):
        return summary
    again = undertake(session.place, {}, config=None, resume=summary.run_id)
    return work_through(session, again, asks=False)


def _refuse_what_bulk_cannot(settings: RunSettings) -> None:
    budget = settings.budget
    if budget.cost_usd is not None or budget.tokens is not None or budget.seconds is not None:
        raise Usage(
            "what a batch costs is known when it is back; bound it by --max-attempts and --reply-tokens"
        )
    if not provider_of(settings).bulk:
        raise Usage("--batch-api needs a live endpoint: set a key, or --base-url")
    if settings.fallbacks or settings.endpoints:
        raise Usage(
            "--fallback and endpoints do not go with --batch-api: a batch is answered by one endpoint"
        )
