"""From options to a run that could begin or go on, with everything about it checked that can be."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.agent.archive import Archive, RunLog, resume_run
from kernelwright.agent.runner import Plan, begin, read_plan
from kernelwright.agent.setup.cost_limits import prices_known, refuse_unpriced
from kernelwright.agent.setup.few_shot_setup import choose
from kernelwright.agent.setup.judge_setup import is_elsewhere
from kernelwright.agent.setup.problem_lookup import read_problems
from kernelwright.agent.setup.provider_setup import addresses_with_keys, models_of, resolve
from kernelwright.agent.setup.run_settings import RunSettings, parse_settings, to_toml
from kernelwright.agent.setup.usage_error import UsageError, validated
from kernelwright.agent.strategies import Independent, Strategy, find_strategy
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import (
    EvaluationConfig,
    Problem,
    SandboxTier,
    Sanitize,
    default_cache,
    find_backend,
    read_regular,
    sha256_text,
    write_whole,
)

CHANGEABLE: Final = frozenset(
    {
        *("provider", "provider_options", "base_url", "endpoints", "fallbacks", "fresh", "recordings"),
        *("stream", "prices", "budget", "completions", "evaluators", "judges", "judge_device"),
        *("engine", "address", "cluster_judges", "cluster_builders", "insecure_cluster"),
    }
)
"""Settings that do not change what a run is, and so may be given anew with `--resume`; so may the sandbox."""

_OPTIONS: Final = {
    "base_url": "--base-url",
    "endpoints": "--set endpoints=…",
    "fallbacks": "--fallback",
    "judges": "--judge",
}
"""Options of the settings that hold addresses."""

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that could begin or go on."""

    plan: Plan
    settings: RunSettings
    problems: tuple[Problem, ...]
    open_log: Callable[[], RunLog]


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Folders of runs, kernels and caches."""

    workspace: Path
    cache: Path | None = None
    record: Path | None = None
    """Folder that every reply is also written to, for replay."""


def prepare(place: RunPlace, settings: RunSettings, *, resume: str | None = None) -> PreparedRun:
    """The run that settings describe; with `resume`, a begun run with those settings in place of its own.

    Raises UsageError, EvaluatorError or ArchiveError if there can be no such run.
    """
    archive = Workspace(place.workspace).archive()
    if resume is None:
        return _begin(place, archive, settings)
    return _go_on(place, archive, archive.find(resume), settings)


def _begin(place: RunPlace, archive: Archive, given: RunSettings) -> PreparedRun:
    settings = resolve(given)
    if not settings.problems:
        raise UsageError("which problems? name files, folders, ids or levels, or `all`")
    for backend in settings.backends:
        find_backend(backend)
    refuse_unpriced(settings)
    problems = read_problems(settings.problems)
    first, *others = _strategies(settings)
    config = counting(keeping(settings.evaluation), settings.backends, (first, *others))
    workspace = Workspace(place.workspace)
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
        keep_slower=settings.keep_slower,
        confirm=settings.confirm,
        prices=prices_known(settings),
        exemplars=choose(workspace, settings, problems=problems, config=config, cache=place.cache),
        seed=settings.seed,
    )
    if not given.backends:
        _LOG.info(
            "kernels are written for %s, as %s it; --backend names another",
            plan.backends[0],
            "the judges have" if is_elsewhere(settings) else "this machine has",
        )
    return PreparedRun(
        plan,
        settings,
        tuple(problems),
        lambda: _noted(place, begin(archive, plan, problems, settings=to_toml(settings))),
    )


def _noted(place: RunPlace, log: RunLog) -> RunLog:
    """Note in the user's cache that this user began a run with its settings."""
    with contextlib.suppress(OSError):
        note = _note(place, log.run)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_whole(note, _settings_sha(log.archive, log.run).encode())
    return log


def _settings_sha(archive: Archive, run: str) -> str:
    return sha256_text(archive.text(run, archive.started(run).settings))


def _note(place: RunPlace, run: str) -> Path:
    return (place.cache or default_cache()) / "runs" / run


def keeping(config: EvaluationConfig) -> EvaluationConfig:
    """The policy of kernels that are saved: what passed is sanitized, unless that is off.

    If a tool is missing or fails, the score says so and why.
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


def _go_on(place: RunPlace, archive: Archive, run: str, changed: RunSettings) -> PreparedRun:
    asked = changed.evaluation.model_fields_set
    refused = sorted(changed.model_fields_set - CHANGEABLE - {"evaluation"})
    refused += sorted(f"evaluation.{name}" for name in asked - {"sandbox"})
    if refused:
        raise UsageError(f"--resume goes on with the plan of run {run}; leave out: {', '.join(refused)}")
    stored = parse_settings(archive.text(run, archive.started(run).settings))
    anew = {name: getattr(changed, name) for name in changed.model_fields_set & CHANGEABLE}
    anew["budget"] = stored.budget.with_limits(changed.budget)
    settings = stored.model_copy(update=anew)
    if anew.keys() & changed.model_fields_set:
        refuse_unpriced(settings)
    _refuse_strange_addresses(place, archive, run, settings, given=changed.model_fields_set)
    plan = read_plan(archive, run)
    tier = _tier(run, plan.config.sandbox, changed)
    return PreparedRun(
        plan.model_copy(update={"config": plan.config.model_copy(update={"sandbox": tier})}),
        settings,
        tuple(archive.problems(run).values()),
        lambda: resume_run(archive, run, bounds=changed.budget),
    )


def _refuse_strange_addresses(
    place: RunPlace, archive: Archive, run: str, settings: RunSettings, *, given: Collection[str]
) -> None:
    """Refuse to send keys where only a run's stored settings say, which others may have written."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if read_regular(_note(place, run)).decode() == _settings_sha(archive, run):
            return
    for name, addresses in addresses_with_keys(settings).items():
        strange = [address for address in addresses if name not in given]
        if strange:
            raise UsageError(
                f"run {run} was not begun with this cache, and its settings would have a key sent to "
                f"{strange[0]}; if that is right, give {_OPTIONS[name]} again"
            )


def _tier(run: str, planned: SandboxTier | None, changed: RunSettings) -> SandboxTier | None:
    """The sandbox to go on in: the operator's. A plan, which others may have written, lowers none."""
    if "sandbox" in changed.evaluation.model_fields_set:
        return changed.evaluation.sandbox
    if planned is None or planned is SandboxTier.BUBBLEWRAP:
        return planned
    _LOG.warning(
        "run %s was planned with --sandbox %s, as whoever made it chose; it goes on in the strongest sandbox "
        "here; give --sandbox %s to go on as planned",
        *(run, planned, planned),
    )
    return None


def _strategies(settings: RunSettings) -> Iterator[Strategy]:
    for name, options in (settings.compared or {settings.strategy: settings.options}).items():
        prefix = f"compared.{name}" if settings.compared else "options"
        place = f"strategy {name}: "
        yield validated(find_strategy(name), {"name": name, **options}, place=place, prefix=prefix)
