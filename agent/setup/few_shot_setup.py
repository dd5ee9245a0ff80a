"""Saved kernels for prompts to show: chosen when a run begins, read again whenever it goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kernelwright.agent.prompting.few_shot import Known, nearest, traits, usable
from kernelwright.agent.runner import Plan
from kernelwright.agent.runner.plan import shown_for
from kernelwright.agent.setup.problem_lookup import find_references, read_problems
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.strategies import Exemplar
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import (
    ConfigError,
    EvaluationConfig,
    Evaluator,
    Problem,
    ProblemSignature,
)

_LOG: Final = logging.getLogger(__name__)


def choose(
    workspace: Workspace,
    settings: RunSettings,
    *,
    problems: Sequence[Problem],
    config: EvaluationConfig,
    cache: Path | None,
) -> dict[str, tuple[str, ...]]:
    """The kernels that openings show, ids by `shown_for`; assignments without any are left out.

    Raises EvaluatorError if this machine has no sandbox to look at problems in.
    """
    if settings.few_shot == 0:
        return {}
    saved = workspace.kernels(lambda _, error: _LOG.warning("left out: %s", error))
    kernels = [kernel for kernel in saved if usable(kernel, config)]
    sources = {problem.sha: problem for problem in read_problems(["all"])}
    sources |= find_references(workspace.archive(), kernels, ())
    sources |= {problem.sha: problem for problem in problems}
    chosen: dict[str, tuple[str, ...]] = {}
    with Evaluator(cache=cache) as evaluator:
        known = [
            Known(kernel, problem, traits(problem, _describe(evaluator, problem, terms)))
            for kernel in kernels
            if (problem := sources.get(kernel.record.problem_sha)) is not None
            for terms in [config.on_terms_of(kernel.score.config)]
        ]
        for problem in problems:
            mine = traits(problem, _describe(evaluator, problem, config))
            for backend in settings.backends:
                fitting = [one for one in known if one.kernel.record.backend == backend]
                found = nearest(problem, mine, fitting, settings.few_shot, own=settings.few_shot_own)
                if found:
                    chosen[shown_for(problem.id, backend)] = tuple(kernel.id for kernel in found)
    return chosen


def load(workspace: Workspace, plan: Plan) -> Mapping[str, tuple[Exemplar, ...]]:
    """The kernels that a plan's openings show; raises what `read_exemplars` raises."""
    return {place: read_exemplars(workspace, names) for place, names in plan.exemplars.items()}


def read_exemplars(workspace: Workspace, kernels: Iterable[str]) -> tuple[Exemplar, ...]:
    """The kernels of these ids, to be shown; raises ArchiveError if one is gone, or damaged."""
    saved = map(workspace.kernel, kernels)
    return tuple(Exemplar(code=one.source, evaluation=one.score, kernel=one.id) for one in saved)


def _describe(evaluator: Evaluator, problem: Problem, config: EvaluationConfig) -> ProblemSignature | None:
    try:
        return evaluator.signature(problem, config)
    except ConfigError:
        # Sizes of a name that this version of the problem does not have.
        return None
