"""From options to a run that could begin or go on, with everything about it checked that can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelwright.agent.archive import Archive, RunLog
from kernelwright.agent.cli.terminal.console import is_watched
from kernelwright.agent.cli.terminal.failures import Usage, say
from kernelwright.agent.cli.terminal.options import explain
from kernelwright.agent.runner import Plan, begin, read_plan
from kernelwright.agent.runner import resume as resume_log
from kernelwright.agent.setup.cost_limits import prices_known, refuse_unpriced
from kernelwright.agent.setup.few_shot_setup import FewShotSelection, choose
from kernelwright.agent.setup.problem_lookup import GPU_SIZED, are_meant_for_gpus, read_problems
from kernelwright.agent.setup.provider_setup import models_of, resolve
from kernelwright.agent.setup.run_settings import RunSettings, parse_settings, read_settings, to_toml
from kernelwright.agent.strategies import Independent, Strategy, find_strategy
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import EvaluationConfig, Problem, Sanitize, find_backend

CHANGEABLE: Final = frozenset(
    {
        *("provider", "provider_options", "base_url", "endpoints", "fallbacks", "fresh", "recordings"),
        *("stream", "prices", "budget", "completions", "evaluators"),
    }
)
"""Settings that do not change what a run is, and so may be given anew with `--resume`."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that could begin or go on."""

    plan: Plan
    settings: RunSettings
    problems: tuple[Problem, ...]
    open_log: Callable[[], RunLog]
    run: str | None = None
    """Its id, when it has begun already."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs, kernels and everything remembered lie."""

    workspace: Path
    cache: Path | None


def undertake(
    place: Place, given: Mapping[str, object], *, config: Path | None, resume: str | None
) -> PreparedRun:
    """The run that options and settings describe, or the one that `resume` names.

    Raises:
        Usage, EvaluatorError, ArchiveError: there can be no such run.
    """
    archive = Workspace(place.workspace).archive()
    if resume is None:
        return _begin(place, archive, resolve(read_settings(config, given)))
    return _go_on(archive, archive.find(None if resume == "last" else resume), given, config)


def _begin(place: Place, archive: Archive, settings: RunSettings) -> PreparedRun:
    if not settings.problems:
        raise Usage("which problems? name files, folders, ids or levels, or `all`")
    for backend in settings.backends:
        find_backend(backend)
    refuse_unpriced(settings)
    problems = read_problems(settings.problems)
    if is_watched() and are_meant_for_gpus(problems, settings.backends, settings.evaluation.shapes):
        say(GPU_SIZED)
    first, *others = _strategies(settings)
    config = counting(keeping(settings.evaluation), settings.backends, (first, *others))
    lesson = FewShotSelection(
        problems=problems,
        backends=settings.backends,
        config=config,
        count=settings.few_shot,
        own=settings.few_shot_own,
    )
    plan = Plan(
        problems=tuple(problem.id for problem in problems),
        backends=settings.backends,
        models=models_of(settings),
        strategy=first,
        others=tuple(others),
        config=config,
        budget=settings.budget,
        problem_budget=settings.problem_budget,
        plain_build=settings.plain_build,
        prices=prices_known(settings),
        exemplars=choose(Workspace(place.workspace), lesson, place.cache),
        seed=settings.seed,
    )
    return PreparedRun(
        plan,
        settings,
        tuple(problems),
        lambda: begin(archive, plan, problems, settings=to_toml(settings)),
    )


def keeping(config: EvaluationConfig) -> EvaluationConfig:
    """The policy of evaluations whose kernels are kept: what passed is sanitized, unless that is off.

    Where a tool is missing or fails, the score says so and why.
    """
    left_open = config.sanitize is Sanitize.AUTO
    return config.model_copy(update={"sanitize": Sanitize.ON}) if left_open else config


def counting(
    config: EvaluationConfig, backends: Sequence[str], strategies: Sequence[Strategy]
) -> EvaluationConfig:
    """Counters are read where a next turn is told of them, unless that was decided."""
    undecided = config.counters is None and any(find_backend(name).device == "cuda" for name in backends)
    told = any(strategy.independent is not Independent.ATTEMPT for strategy in strategies)
    return config.model_copy(update={"counters": True}) if undecided and told else config


def _go_on(archive: Archive, run: str, given: Mapping[str, object], config: Path | None) -> PreparedRun:
    changed = _changed(run, given, config)
    stored = parse_settings(archive.text(run, archive.started(run).settings))
    anew = {name: getattr(changed, name) for name in changed.model_fields_set}
    anew["budget"] = stored.budget.with_limits(changed.budget)
    settings = stored.model_copy(update=anew)
    if given:
        refuse_unpriced(settings)
    return PreparedRun(
        read_plan(archive, run),
        settings,
        tuple(archive.problems(run).values()),
        lambda: resume_log(archive, run, bounds=changed.budget),
        run,
    )


def _changed(run: str, given: Mapping[str, object], config: Path | None) -> RunSettings:
    """What is given anew for a run that has begun, defaults beside it."""
    refused = sorted(set(given) - CHANGEABLE)
    if refused or config is not None:
        what = "--config" if config is not None else ", ".join(refused)
        raise Usage(f"--resume goes on with the plan of run {run}; leave out: {what}")
    return read_settings(None, given)


def _strategies(settings: RunSettings) -> list[Strategy]:
    compared = settings.compared or {settings.strategy: settings.options}
    return [_strategy(name, options) for name, options in compared.items()]


def _strategy(name: str, options: Mapping[str, object]) -> Strategy:
    kind = find_strategy(name)
    try:
        return kind.model_validate({"name": name, **options})
    except ValidationError as error:
        known = ", ".join(f"options.{field}" for field in kind.model_fields if field != "name")
        raise Usage(f"strategy {name}: {explain(error)}; it has {known} (--set options.NAME=VALUE)") from None
