"""The plan of a run: stored in its first line, and enough to resume it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field, ValidationError

from kernelwright.agent.archive import Archive, ArchiveError, RunLog, begin_run
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling
from kernelwright.agent.strategies import AnyStrategy
from kernelwright.evaluator import EvaluationConfig, Problem, Record, find_backend, sha256_text


class ModelChoice(Record):
    """A model and its sampling parameters."""

    name: str
    sampling: Sampling = Sampling()
    license: str | None = None
    """Licence of this model's output, if the user states it."""
    origin: str = ""
    """Origin of replies that no model wrote: handwritten recordings, imported files."""


class Plan(Record):
    """The product of problems, backends, models and strategies."""

    problems: tuple[str, ...] = Field(min_length=1)
    """Problem ids, in the order to work on them."""
    backends: tuple[str, ...] = Field(min_length=1)
    models: tuple[ModelChoice, ...] = Field(min_length=1)
    strategy: AnyStrategy
    others: tuple[AnyStrategy, ...] = ()
    """Further strategies, each given the same work as the first, for comparison."""
    config: EvaluationConfig = EvaluationConfig()
    budget: Budget = Budget()
    """Limits of the whole run."""
    problem_budget: Budget = Budget()
    """Limits of each assignment."""
    plain_build: bool = True
    """True if only kernels that build with torch's own headers are saved."""
    keep_slower: bool = False
    """True if kernels that are slower than the fastest baseline are saved, too."""
    confirm: bool = True
    """True if the best of several attempts is evaluated again before it counts."""
    exemplars: dict[str, tuple[str, ...]] = {}
    """Saved kernels that openings show, by `shown_for`; chosen when the run began."""
    prices: dict[str, str] = {}
    """Price of each model when the run began, with its source; models of unknown price are missing."""
    seed: int = 0
    """Seed of the strategies' random choices; not sent to models."""


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

    @property
    def names(self) -> dict[str, str]:
        """Its identity as the fields of log lines and events."""
        return dict(zip(("problem", "backend", "model", "strategy"), self.key, strict=True))


def shown_for(problem: str, backend: str) -> str:
    """The key of an assignment's exemplars in a plan."""
    return f"{backend}:{problem}"


def tasks(plan: Plan) -> Iterator[Task]:
    """Iterate over the assignments of a plan, problem by problem."""
    return (
        Task(problem=problem, backend=backend, model=model, strategy=strategy)
        for problem in dict.fromkeys(plan.problems)
        for backend in dict.fromkeys(plan.backends)
        for model in plan.models
        for strategy in (plan.strategy, *plan.others)
    )


def seed_of(plan: Plan, task: Task) -> int:
    """Derive the seed of an assignment; compared strategies share it."""
    parts = (str(plan.seed), task.problem, task.backend, task.model.name)
    return int(sha256_text("\0".join(parts))[:12], 16)


def begin(archive: Archive, plan: Plan, problems: Sequence[Problem], *, settings: str = "") -> RunLog:
    """Begin a run; `settings` is the text (TOML) the plan was read from.

    Raises ConfigError for an unknown backend, ValueError for a missing problem or a name that is twice.
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


def budget_of(log: RunLog) -> Budget:
    """Return the budget of a whole run, including limits set by resumes; raises what `read_plan` raises."""
    return read_plan(log.archive, log.run).budget.with_limits(log.index.bounds)


def read_plan(archive: Archive, run: str) -> Plan:
    """Read the plan a run began with; raises ArchiveError if this version cannot."""
    started = archive.started(run)
    try:
        return Plan.model_validate_json(archive.text(run, started.plan))
    except ValidationError as error:
        raise ArchiveError(
            f"run {run} was planned by kernelwright {started.versions.get('kernelwright', 'unknown')} "
            f"in a way this version does not read: {error.errors()[0]['msg']}"
        ) from None
