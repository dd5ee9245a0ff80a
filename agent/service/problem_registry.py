"""The problems a service knows, and what a submission means by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kernelwright.agent.service.submission import AskedProblem, Content, Submission, policy
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    EvaluationConfig,
    Problem,
    ProblemError,
    find_backend,
    problem_from_source,
)


class ProblemRegistry:
    """Problems by id; nothing a client sends is ever taken for a path."""

    def __init__(
        self,
        problems: Sequence[Problem],
        *,
        operator: EvaluationConfig,
        kinds: Collection[str],
        allows_sources: bool = False,
    ) -> None:
        """`operator` is the policy that clients' wishes go into, `kinds` the kinds of device there are."""
        self.problems: Mapping[str, Problem] = {problem.id: problem for problem in problems}
        self._operator = operator
        self._kinds = frozenset(kinds)
        self._allows_sources = allows_sources

    def resolve(self, submission: Submission) -> Content:
        """What a submission asks to have judged.

        Raises:
            ProblemError: no such problem, another text under its id, or one that is malformed or not wanted.
            ConfigError: unknown backend or shape name, no device for the backend, or too high a limit.
        """
        problem = self._problem(submission.wanted)
        backend = find_backend(submission.backend)
        if backend.device not in self._kinds:
            known = ", ".join(sorted(self._kinds))
            raise ConfigError(f"no device for backend {backend.name!r} here; this service judges on {known}")
        config = policy(submission.config, self._operator)
        problem.overrides(config.shapes)
        candidate = Candidate(source=submission.candidate, backend=backend.name)
        return Content(problem=problem, candidate=candidate, config=config)

    def _problem(self, wanted: AskedProblem) -> Problem:
        if wanted.source is None:
            problem = self.problems.get(wanted.id)
            if problem is None:
                raise ProblemError(f"no problem {wanted.id!r} here; GET /v1/problems lists them")
        elif not self._allows_sources:
            raise ProblemError(
                "this service takes no problem sources; name one of its own (GET /v1/problems), "
                "or have its operator pass --allow-problem-sources"
            )
        else:
            problem = _read(wanted.source, wanted.id)
        if wanted.sha is not None and wanted.sha != problem.sha:
            raise ProblemError(f"problem {problem.id} has the hash {problem.sha} here, not {wanted.sha}")
        return problem


def _read(source: str, name: str) -> Problem:
    try:
        return problem_from_source(source, name)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        # What Python's own parser makes of hostile text.
        raise ProblemError(f"problem {name} cannot be read: {type(error).__name__}") from None
