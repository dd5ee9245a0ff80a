"""Works through a run: opens endpoint, evaluator and watcher around it, and closes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from shlex import quote

from kernelwright.agent.archive import RunLog
from kernelwright.agent.cli.models.run_summary import print_end
from kernelwright.agent.cli.terminal.failures import Usage, say
from kernelwright.agent.cli.terminal.progress import ProgressView, json_lines
from kernelwright.agent.prompting.prompts import TemplatePrompts, installed_prompts
from kernelwright.agent.runner import BatchRunner, RunSummary, read_plan
from kernelwright.agent.runner.events import Event
from kernelwright.agent.setup.few_shot_setup import load
from kernelwright.agent.setup.preparation import Place, PreparedRun, undertake
from kernelwright.agent.setup.prompt_setup import known_facts, open_prompts
from kernelwright.agent.setup.provider_setup import Endpoints, ReplyStorage, open_endpoints, open_providers
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.strategies import Exemplar, Prompts
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Problem,
    Stage,
    check_ready,
    default_cache,
    evaluations_at_once,
)


class Shown(StrEnum):
    """What is printed while a run goes on."""

    LIVE = "live"
    QUIET = "quiet"
    JSON_LINES = "json_lines"


@dataclass(frozen=True, slots=True)
class Session:
    """What belongs to this process and not to the run."""

    workspace: Path
    cache: Path | None
    record: Path | None
    shown: Shown

    @property
    def place(self) -> Place:
        """Where runs, kernels and everything remembered lie."""
        return Place(self.workspace, self.cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A run with its log open, and what is to be done to it."""

    settings: RunSettings
    log: RunLog
    prompts: Prompts
    endpoints: Endpoints | None
    """None asks nobody."""
    exemplars: Mapping[str, tuple[Exemplar, ...]] = field(default_factory=dict)
    judges: bool = True


def go(session: Session, given: Mapping[str, object], *, config: Path | None, resume: str | None) -> int:
    """Begin or go on with a run, and see it to its end; returns the exit status.

    Raises:
        Usage, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    work = undertake(session.place, given, config=config, resume=resume)
    if work.settings.batch_api and resume is None:
        raise Usage("batch_api: `kernelwright generate` asks in bulk, `run --resume` judges what came")
    asks = work.plan.strategy.asks and not work.settings.batch_api
    summary = work_through(session, work, asks=asks)
    if session.shown is not Shown.JSON_LINES:
        print_end(Workspace(session.workspace), summary, bulk=work.settings.batch_api)
    return summary.exit_code


def work_through(
    session: Session, work: PreparedRun, *, asks: bool = True, judges: bool = True
) -> RunSummary:
    """Ask what is to be asked and judge what is to be judged, until nothing is left or the run stops.

    Raises:
        Usage, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    if judges:
        for backend in work.plan.backends:
            check_ready(backend, work.plan.config)
    with ExitStack() as stack:
        quiet = session.shown is Shown.QUIET
        endpoints = stack.enter_context(open_endpoints(work.settings, quiet=quiet)) if asks else None
        prompts = prompts_for(work, session.cache) if asks else TemplatePrompts(installed_prompts())
        exemplars = load(Workspace(session.workspace), work.plan) if asks else {}
        log = stack.enter_context(work.open_log())
        stack.enter_context(way_back("run", session, log.run))
        return _work(
            session,
            _Work(
                settings=work.settings,
                log=log,
                prompts=prompts,
                exemplars=exemplars,
                endpoints=endpoints,
                judges=judges,
            ),
        )


def prompts_for(work: PreparedRun, cache: Path | None) -> TemplatePrompts:
    """The prompts of a run, with what is known of its problems.

    Raises:
        EvaluatorError: unknown target, or no such device here.
    """
    config, plan = work.plan.config, work.plan
    facts = known_facts(work.problems, config, cache)
    return open_prompts(config, plan.backends, work.settings.target, facts=facts)


@contextmanager
def way_back(command: str, session: Session, run: str) -> Iterator[None]:
    """Name the command that goes on with a run when a second Ctrl-C ends this one at once."""
    try:
        yield
    except KeyboardInterrupt:
        place = quote(str(session.workspace))
        say(f"stopped at once; go on: kernelwright {command} --resume {run} --workspace {place}")
        raise


def judge_recorded(session: Session, log: RunLog) -> RunSummary:
    """Judge what a log holds and nobody has judged yet; asks nobody.

    Raises:
        EvaluatorError, OSError: nothing is lost.
    """
    prompts = TemplatePrompts(installed_prompts())
    return _work(session, _Work(settings=RunSettings(), log=log, prompts=prompts, endpoints=None))


def _at_once(work: _Work) -> int:
    """How many evaluations keep the devices of a run busy; what is missing here, the evaluations say."""
    plan = read_plan(work.log.archive, work.log.run)
    try:
        return evaluations_at_once(plan.config.device, plan.backends)
    except EvaluatorError:
        return 1


def _work(session: Session, work: _Work) -> RunSummary:
    settings = work.settings
    with ExitStack() as stack:
        evaluators = settings.evaluators or _at_once(work)
        evaluator = stack.enter_context(Evaluator(cache=session.cache, idle_referees=max(2, evaluators)))

        def evaluate(
            problem: Problem,
            candidate: Candidate,
            config: EvaluationConfig,
            on_stage: Callable[[Stage], None],
        ) -> Evaluation:
            return evaluator.evaluate(problem, candidate, config, on_stage=on_stage)

        # Strategies that are compared begin with the same question; each must get an answer of its own.
        shares = bool(settings.compared)
        storage = ReplyStorage(
            completions=None if shares else (session.cache or default_cache()) / "completions",
            record=session.record,
            run=work.log.run,
        )
        watch = stack.enter_context(follower(session.shown))
        endpoints = work.endpoints
        batch = BatchRunner(
            log=work.log,
            workspace=Workspace(session.workspace),
            providers=open_providers(settings, endpoints, storage, watch) if endpoints else None,
            evaluate=evaluate if work.judges else None,
            builds_plainly=evaluator.build_with_full_headers,
            prompts=work.prompts,
            exemplars=work.exemplars,
            completions=settings.completions,
            evaluators=evaluators,
            on_event=watch,
        )
        return batch.run()


@contextmanager
def follower(shown: Shown) -> Iterator[Callable[[Event], None]]:
    """What is told of every event."""
    match shown:
        case Shown.LIVE:
            with ProgressView() as watcher:
                yield watcher
        case Shown.JSON_LINES:
            yield json_lines
        case Shown.QUIET:
            yield lambda event: None
