"""Works through runs: opens endpoints and the evaluator around a runner, and closes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Final

from kernelwright.agent.archive import RunLog
from kernelwright.agent.evaluation.evaluation_site import (
    BuildsPlainly,
    Evaluate,
    EvaluationHooks,
    EvaluationRequest,
    EvaluationSite,
    RemoteEvaluationSite,
    ignore,
)
from kernelwright.agent.prompting.prompts import TemplatePrompts, installed_prompts
from kernelwright.agent.records.attempt_log import Attempt, RunEnd
from kernelwright.agent.runner import BatchRunner, BulkRunner, RunSummary, read_plan
from kernelwright.agent.runner.bulk_runner import FOLDER, attempt_of
from kernelwright.agent.runner.events import Event
from kernelwright.agent.setup.cost_limits import prices_of
from kernelwright.agent.setup.few_shot_setup import load
from kernelwright.agent.setup.judge_setup import local_site, open_site, remote_site
from kernelwright.agent.setup.preparation import PreparedRun, RunPlace, prepare
from kernelwright.agent.setup.prompt_setup import known_facts, open_prompts
from kernelwright.agent.setup.provider_setup import (
    Endpoints,
    live_endpoint,
    open_endpoints,
    open_providers,
    provider_of,
)
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.strategies import Exemplar
from kernelwright.agent.workspace import Kernel, Workspace
from kernelwright.evaluator import (
    Evaluation,
    EvaluationConfig,
    FullHeaderBuild,
    SandboxTier,
    check_ready,
    default_cache,
)

_LOG: Final = logging.getLogger(__name__)

Watch = Callable[[Event], None]
"""Called with every event of a run, in the thread that runs it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A run that came to its end."""

    summary: RunSummary
    attempts: tuple[Attempt, ...]
    """Every reply of the run, with its evaluation."""
    kernels: tuple[Kernel, ...]
    """Saved kernels that this run made."""


def run_batch(
    settings: RunSettings,
    *,
    workspace: Path = Path(),
    cache: Path | None = None,
    resume: str | None = None,
    on_event: Watch = ignore,
) -> Batch:
    """Ask models for kernels, evaluate every reply, save what passes; blocks until the run stops.

    `resume` goes on with a run, by a unique prefix of its id or `last`; settings then may change only
    whom to ask and how much to spend.

    Raises:
        UsageError, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    place = RunPlace(workspace, cache)
    summary = work_through(place, prepare(place, settings, resume=resume), on_event=on_event)
    held = Workspace(workspace)
    attempts = tuple(held.archive().attempts(summary.run_id))
    made = (kernel for kernel in held.kernels() if kernel.record.provenance.run == summary.run_id)
    return Batch(summary, attempts, tuple(made))


def work_through(
    place: RunPlace,
    work: PreparedRun,
    *,
    on_event: Watch = ignore,
    asks: bool | None = None,
    evaluates: bool = True,
) -> RunSummary:
    """Ask what is to be asked and evaluate what is to be evaluated, until nothing is left or the run stops.

    Raises what `run_batch` raises.
    """
    if asks is None:
        asks = work.plan.strategy.asks and not work.settings.batch_api
    judges = remote_site(work.settings, work.plan.config, work.plan.backends, cache=place.cache)
    if evaluates and judges is None:
        for backend in work.plan.backends:
            check_ready(backend, work.plan.config)
    with ExitStack() as stack:
        if judges is not None:
            stack.enter_context(judges)
        endpoints = stack.enter_context(open_endpoints(work.settings)) if asks else None
        prompts = prompts_for(work, place, judges) if asks else TemplatePrompts(installed_prompts())
        exemplars = load(Workspace(place.workspace), work.plan) if asks else {}
        log = stack.enter_context(work.open_log())
        stack.enter_context(resumable("run", place, log.run))
        sandbox = work.plan.config.sandbox
        opened = _OpenedRun(work.settings, log, prompts, sandbox, endpoints, exemplars)
        site: EvaluationSite | None = judges if evaluates else None
        if evaluates and site is None:
            device, evaluators = work.plan.config.device, work.settings.evaluators
            site = stack.enter_context(local_site(place.cache, device, work.plan.backends, evaluators))
        return _run(place, opened, site, on_event)


def ask_in_bulk(
    place: RunPlace, work: PreparedRun, on_event: Watch, *, poll_s: float, waits: bool, evaluates: bool
) -> RunSummary:
    """Send a run's requests through the Batch API of one endpoint, and collect the replies.

    It waits for them, looking every `poll_s` seconds, or ends; with `evaluates` they are then evaluated.
    Raises what `run_batch` raises.
    """
    _refuse_settings_without_meaning(work.settings)
    in_bulk = work.settings.model_copy(update={"provider": provider_of(work.settings).bulk})
    provider, endpoint = provider_of(in_bulk), live_endpoint(in_bulk)
    with (
        remote_site(work.settings, work.plan.config, work.plan.backends, cache=place.cache)
        or nullcontext() as judges
    ):
        prompts = prompts_for(work, place, judges)
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
            poll_s=poll_s,
            waits=waits,
        ).run()
    if not evaluates or summary.end not in (RunEnd.ASKED, RunEnd.INCOMPLETE):
        return summary
    operators = EvaluationConfig(sandbox=work.plan.config.sandbox)
    again = prepare(place, RunSettings(evaluation=operators), resume=summary.run_id)
    return work_through(place, again, on_event=on_event, asks=False)


def evaluate_recorded(
    place: RunPlace, log: RunLog, settings: RunSettings, on_event: Watch = ignore
) -> RunSummary:
    """Evaluate what a log holds and nobody has evaluated yet; of the settings only judges count."""
    plan = read_plan(log.archive, log.run)
    prompts = TemplatePrompts(installed_prompts())
    with open_site(settings, plan.config, plan.backends, cache=place.cache) as site:
        return _run(place, _OpenedRun(RunSettings(), log, prompts, plan.config.sandbox), site, on_event)


def prompts_for(
    work: PreparedRun, place: RunPlace, judges: RemoteEvaluationSite | None = None
) -> TemplatePrompts:
    """The prompts of a run, with what is known of its problems, and of the judges if there are any."""
    config = work.plan.config
    return open_prompts(
        config,
        work.plan.backends,
        work.settings.target,
        facts=known_facts(work.problems, config, place.cache),
        workspace=Workspace(place.workspace),
        judges=judges,
    )


@contextmanager
def resumable(command: str, place: RunPlace, run: str) -> Iterator[None]:
    """Name the command that resumes a run when a second Ctrl-C ends this one at once."""
    try:
        yield
    except KeyboardInterrupt:
        folder = quote(str(place.workspace))
        _LOG.warning(
            "stopped at once; go on: kernelwright %s --resume %s --workspace %s", command, run, folder
        )
        raise


@dataclass(frozen=True, slots=True)
class _OpenedRun:
    settings: RunSettings
    log: RunLog
    prompts: TemplatePrompts
    sandbox: SandboxTier | None
    """The operator's, whatever plan and evaluations of the log say."""
    endpoints: Endpoints | None = None
    """None asks nobody."""
    exemplars: Mapping[str, tuple[Exemplar, ...]] = field(default_factory=dict)


def _run(place: RunPlace, opened: _OpenedRun, site: EvaluationSite | None, on_event: Watch) -> RunSummary:
    """Run a batch; without a site nothing is evaluated."""
    settings, endpoints = opened.settings, opened.endpoints
    if site:
        _LOG.info("evaluating %s", site.capacity)
    if site and site.builds_plainly is None and read_plan(opened.log.archive, opened.log.run).plain_build:
        _LOG.info("kernels are saved without a build with torch's own headers: judges elsewhere make none")
    # Strategies that are compared begin with the same question; each must get a reply of its own.
    completions = None if settings.compared else (place.cache or default_cache()) / "completions"
    saved = {"completions": completions, "record": place.record}
    run = opened.log.run
    return BatchRunner(
        log=opened.log,
        workspace=Workspace(place.workspace),
        providers=open_providers(settings, endpoints, on_event, run=run, **saved) if endpoints else None,
        evaluate=_guarded(site, opened.sandbox) if site else None,
        builds_plainly=_guarded_build(site, opened.sandbox) if site else None,
        prompts=opened.prompts,
        exemplars=opened.exemplars,
        completions=settings.completions,
        evaluators=settings.evaluators or (site.at_once if site else 1),
        on_event=on_event,
    ).run()


def _guarded(site: EvaluationSite, sandbox: SandboxTier | None) -> Evaluate:
    def evaluate(request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        config = request.config.model_copy(update={"sandbox": sandbox})
        return site.evaluate(replace(request, config=config), hooks)

    return evaluate


def _guarded_build(site: EvaluationSite, sandbox: SandboxTier | None) -> BuildsPlainly | None:
    build = site.builds_plainly
    if build is None:
        return None

    def builds_plainly(evaluation: Evaluation) -> FullHeaderBuild:
        config = evaluation.config.model_copy(update={"sandbox": sandbox})
        return build(evaluation.model_copy(update={"config": config}))

    return builds_plainly


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
