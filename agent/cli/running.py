"""From settings to a finished run: opens log, endpoint, evaluator and watcher, and closes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.archive import Archive, RunLog
from agent.batch import Batch, Plan, RunSummary, begin, read_plan
from agent.batch import resume as resume_log
from agent.batch.events import Event
from agent.cli.asking import models_of, open_endpoint, open_provider, resolve
from agent.cli.ending import print_end
from agent.cli.failures import Usage, say
from agent.cli.library import GPU_SIZED, are_meant_for_gpus, read_problems
from agent.cli.options import explain
from agent.cli.progress import Watcher, json_lines
from agent.cli.screen import is_watched
from agent.cli.settings import RunSettings, parse_settings, read_settings, to_toml
from agent.cli.wording import open_prompts
from agent.prompts import TemplatePrompts, installed_prompts
from agent.providers.endpoint import Endpoint
from agent.strategies import AnyStrategy, Imported
from agent.workspace import Workspace
from evaluator import Candidate, Evaluation, EvaluationConfig, Evaluator, Problem, Stage, find_backend

CHANGEABLE = frozenset({"provider", "base_url", "recordings", "stream", "completions", "evaluators"})
"""Settings that do not change what a run is, and so may be given anew with `--resume`."""


_STRATEGY: TypeAdapter[AnyStrategy] = TypeAdapter(AnyStrategy)


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


@dataclass(frozen=True, slots=True)
class _Undertaking:
    """A run that could begin or go on, with everything about it checked that can be."""

    plan: Plan
    settings: RunSettings
    open_log: Callable[[], RunLog]


def go(session: Session, given: Mapping[str, object], *, config: Path | None, resume: str | None) -> int:
    """Begin or go on with a run, and see it to its end; returns the exit status.

    Raises:
        Usage, EvaluatorError, ProviderError, ArchiveError, OSError: nothing could be begun.
    """
    place = Workspace(session.workspace)
    archive = place.archive()
    if resume is None:
        work = _begin(archive, resolve(read_settings(config, given)))
    else:
        work = _go_on(archive, archive.find(None if resume == "last" else resume), given, config)
    prompts = open_prompts(work.plan.config, work.plan.backends, work.settings.target)
    asks = not isinstance(work.plan.strategy, Imported)
    with ExitStack() as stack:
        endpoint = (
            stack.enter_context(open_endpoint(work.settings, quiet=session.shown is Shown.QUIET))
            if asks
            else None
        )
        log = stack.enter_context(work.open_log())
        summary = _work(session, work.settings, log, prompts, endpoint)
    if session.shown is not Shown.JSON_LINES:
        print_end(place, summary)
    return summary.exit_code


def judge_recorded(session: Session, log: RunLog) -> RunSummary:
    """Judge what a log holds and nobody has judged yet; asks nobody.

    Raises:
        EvaluatorError, OSError: nothing is lost.
    """
    return _work(session, RunSettings(), log, TemplatePrompts(installed_prompts()), None)


def _begin(archive: Archive, settings: RunSettings) -> _Undertaking:
    if not settings.problems:
        raise Usage("which problems? name files, folders, ids or levels, or `all`")
    for backend in settings.backends:
        find_backend(backend)
    problems = read_problems(settings.problems)
    if is_watched() and are_meant_for_gpus(problems, settings.backends, settings.evaluation.shapes):
        say(GPU_SIZED)
    plan = Plan(
        problems=tuple(problem.id for problem in problems),
        backends=settings.backends,
        models=models_of(settings),
        strategy=_strategy(settings),
        config=settings.evaluation,
        budget=settings.budget,
        problem_budget=settings.problem_budget,
        seed=settings.seed,
    )
    return _Undertaking(plan, settings, lambda: begin(archive, plan, problems, settings=to_toml(settings)))


def _go_on(archive: Archive, run: str, given: Mapping[str, object], config: Path | None) -> _Undertaking:
    settings = _settings_again(archive, run, given, config)
    return _Undertaking(read_plan(archive, run), settings, lambda: resume_log(archive, run))


def _settings_again(
    archive: Archive, run: str, given: Mapping[str, object], config: Path | None
) -> RunSettings:
    refused = sorted(set(given) - CHANGEABLE)
    if refused or config is not None:
        what = "--config" if config is not None else ", ".join(refused)
        raise Usage(f"--resume goes on with the plan of run {run}; leave out: {what}")
    stored = parse_settings(archive.text(run, archive.started(run).settings))
    return stored.model_copy(update=dict(read_settings(None, given).model_dump(include=set(given))))


def _strategy(settings: RunSettings) -> AnyStrategy:
    try:
        return _STRATEGY.validate_python({"name": settings.strategy, **settings.options})
    except ValidationError as error:
        raise Usage(f"strategy {settings.strategy}: {explain(error)}") from None


def _work(
    session: Session,
    settings: RunSettings,
    log: RunLog,
    prompts: TemplatePrompts,
    endpoint: Endpoint | None,
) -> RunSummary:
    with ExitStack() as stack:
        evaluator = stack.enter_context(Evaluator(cache=session.cache))

        def evaluate(
            problem: Problem,
            candidate: Candidate,
            config: EvaluationConfig,
            on_stage: Callable[[Stage], None],
        ) -> Evaluation:
            return evaluator.evaluate(problem, candidate, config, on_stage=on_stage)

        provider = open_provider(settings, endpoint, record=session.record) if endpoint else None
        batch = Batch(
            log=log,
            workspace=Workspace(session.workspace),
            providers=dict.fromkeys(settings.models, provider) if provider else {},
            evaluate=evaluate,
            prompts=prompts,
            completions=settings.completions,
            evaluators=settings.evaluators,
            on_event=stack.enter_context(_follower(session.shown)),
        )
        return batch.run()


@contextmanager
def _follower(shown: Shown) -> Iterator[Callable[[Event], None]]:
    match shown:
        case Shown.LIVE:
            with Watcher() as watcher:
                yield watcher
        case Shown.JSON_LINES:
            yield json_lines
        case Shown.QUIET:
            yield lambda event: None
