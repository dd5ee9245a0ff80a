"""The plan of a run: stored in its first line, and enough to resume it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field, ValidationError

from kernelwright.agent.archive import Archive, ArchiveError, RunLog, begin_run, resume_run
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling
from kernelwright.agent.strategies import AnyStrategy
from kernelwright.evaluator import EvaluationConfig, Problem, Record, find_backend, sha256_text


class ModelChoice(Record):
    """A model to ask, and how."""

    name: str
    sampling: Sampling = Sampling()
    license: str | None = None
    """Licence of this model's output, as far as the user states it."""
    origin: str = ""
    """Origin of replies that no model gives: handwritten recordings, imported files."""


class Plan(Record):
    """Every problem, with every backend, given to every model."""

    problems: tuple[str, ...] = Field(min_length=1)
    """Problem ids, in the order to work on them."""
    backends: tuple[str, ...] = Field(min_length=1)
    models: tuple[ModelChoice, ...] = Field(min_length=1)
    strategy: AnyStrategy
    others: tuple[AnyStrategy, ...] = ()
    """Further strategies, each given the same as the first; an experiment compares them."""
    config: EvaluationConfig = EvaluationConfig()
    budget: Budget = Budget()
    """Of the whole run."""
    problem_budget: Budget = Budget()
    """Of each assignment."""
    plain_build: bool = True
    """True where a kernel must build with torch's own headers to be kept."""
    exemplars: dict[str, tuple[str, ...]] = {}
    """Kept kernels that openings show, by `shown_for`; chosen when the run began."""
    prices: dict[str, str] = {}
    """Price of each model when the run began, with its source; models of unknown price are missing."""
    seed: int = 0
    """Seeds what strategies choose at random; sent to no model."""


@dataclass(frozen=True, slots=True)
class Task:
    """One assignment of a plan."""

    problem: str
    backend: str
    model: ModelChoice
    strategy: AnyStrategy

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its identity within the run."""
        return self.problem, self.backend, self.model.name, self.strategy.name


def shown_for(problem: str, backend: str) -> str:
    """The key of an assignment's exemplars in a plan."""
    return f"{backend}:{problem}"


def tasks(plan: Plan) -> Iterator[Task]:
    """The assignments of a plan, problem by problem."""
    return (
        Task(problem=problem, backend=backend, model=model, strategy=strategy)
        for problem in dict.fromkeys(plan.problems)
        for backend in dict.fromkeys(plan.backends)
        for model in plan.models
        for strategy in (plan.strategy, *plan.others)
    )


def seed_of(plan: Plan, task: Task) -> int:
    """A seed of an assignment's own; strategies that are compared share it."""
    parts = (str(plan.seed), task.problem, task.backend, task.model.name)
    return int(sha256_text("\0".join(parts))[:12], 16)


def begin(archive: Archive, plan: Plan, problems: Sequence[Problem], *, settings: str = "") -> RunLog:
    """Begin a run; `settings` is the text (TOML) the plan was read from.

    Raises:
        ConfigError: an unknown backend.
        ValueError: the plan names a problem that is not given, or a model or strategy twice.
    """
    for backend in plan.backends:
        find_backend(backend)
    given = {problem.id: problem for problem in problems}
    missing = [name for name in plan.problems if name not in given]
    names = [model.name for model in plan.models]
    words = [strategy.name for strategy in (plan.strategy, *plan.others)]
    if missing or len(set(names)) < len(names) or len(set(words)) < len(words):
        raise ValueError(
            f"problems not given: {missing}; models: {names}, strategies: {words}, each may be named once"
        )
    used = [given[name] for name in dict.fromkeys(plan.problems)]
    return begin_run(archive, plan.model_dump_json(), used, settings=settings)


def resume(archive: Archive, run: str | None = None, *, bounds: Budget | None = None) -> RunLog:
    """Go on with a run, the newest by default; `bounds` replace limits of its budget.

    Raises:
        UnknownRun: no such run.
        ArchiveError: in use by another process, damaged, or newer than this program.
    """
    return resume_run(archive, run, bounds=bounds)


def budget_of(log: RunLog) -> Budget:
    """The budget of a whole run: as planned, but for limits given on resume.

    Raises:
        ArchiveError: its plan cannot be read by this version.
    """
    return read_plan(log.archive, log.run).budget.with_limits(log.index.bounds)


def read_plan(archive: Archive, run: str) -> Plan:
    """The plan a run began with.

    Raises:
        ArchiveError: it cannot be read by this version.
    """
    started = archive.started(run)
    try:
        return Plan.model_validate_json(archive.text(run, started.plan))
    except ValidationError as error:
        raise ArchiveError(
            f"run {run} was planned by kernelwright {started.versions.get('kernelwright', 'unknown')} "
            f"in a way this version does not read: {error.errors()[0]['msg']}"
        ) from None
