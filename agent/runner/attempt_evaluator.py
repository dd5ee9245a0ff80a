"""Evaluates replies in the worker threads, each candidate once; machine failures are never scored."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kernelwright.agent.archive import RunLog
from kernelwright.agent.evaluation.evaluation_site import (
    CandidateQuarantined,
    Evaluate,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.agent.evaluation.evaluation_site import told as message_of
from kernelwright.agent.records.attempt_log import Attempt, EvaluatorFailed, ProblemSkipped, RunEnd
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.agent.runner.events import (
    EvaluationWaits,
    EvaluatorTrouble,
    Event,
    Judged,
    Judging,
    Skipped,
    StageEntered,
)
from kernelwright.agent.runner.policy import EVALUATOR_STRIKES, LONGEST_MESSAGE, MEASURED_AGAIN
from kernelwright.agent.runner.shutdown import StopConditions
from kernelwright.agent.strategies import NoAttemptError
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    MachineError,
    Problem,
    ProblemError,
    Stage,
    Status,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One reply to evaluate."""

    problem: Problem
    attempt: Attempt
    code: str | None
    begun: Callable[[], None]
    """Called in the event loop when a worker begins."""


@dataclass(eq=False)
class AttemptEvaluator:
    """Sends candidates to the evaluator. Lives in one event loop."""

    log: RunLog
    config: EvaluationConfig
    evaluate_one: Evaluate | None
    """None leaves replies for later."""
    stop: StopConditions
    emit: Callable[[Event], None]
    workers: EvaluationScheduler
    failures: int = 0
    """Replies that could not be evaluated."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Problem id to the reason it cannot be evaluated."""
    _strikes: Counter[str] = field(default_factory=Counter)
    """Failures by problem."""
    _failing: set[str] = field(default_factory=set)
    """Problems (attempts, if the machine failed) that failed since the last evaluation."""
    _running: set[str] = field(default_factory=set)
    _under_way: dict[tuple[str, str], asyncio.Task[Attempt]] = field(default_factory=dict)
    _evaluated: dict[tuple[str, str], str] = field(default_factory=dict)
    """Problem and candidate to the evaluated attempt; of this process, so of one hardware."""

    @property
    def in_flight(self) -> int:
        """Evaluations in progress."""
        return len(self._running)

    def refusal(self, problem: str) -> str:
        """Return the reason a problem is neither requested nor evaluated any more; empty if it is."""
        if self._strikes[problem] >= EVALUATOR_STRIKES:
            return f"the evaluator failed {EVALUATOR_STRIKES} times on {problem}"
        return self.skipped.get(problem, "")

    async def evaluate(self, case: Case) -> Attempt:
        """Evaluate and record; an equal candidate for the same problem reuses its evaluation.

        Raises:
            NoAttemptError: the evaluator failed, the problem is refused, or evaluation is left for later.
            OSError: the log cannot be written.
        """
        if case.code is None:
            return await self._record(case.attempt, without_code(case, self.config))
        request = self._request(case, case.code)
        place = case.problem.sha, request.candidate.sha
        if place in self._under_way:
            case.begun()
            return await self.reuse(case.attempt, await asyncio.shield(self._under_way[place]))
        known = self.log.find(self._evaluated.get(place, ""))
        if known is not None:
            return await self.reuse(case.attempt, known)
        self._under_way[place] = asyncio.ensure_future(self._put(case, request))
        try:
            evaluated = await self._under_way[place]
        finally:
            del self._under_way[place]
        self._evaluated[place] = evaluated.id
        return evaluated

    async def confirm(self, case: Case) -> Attempt | None:
        """Evaluate a candidate that passed once more and record that; None where the machine is too busy.

        Raises what `evaluate` raises.
        """
        if case.code is None:
            raise NoAttemptError("a reply without code is not evaluated again")
        first = await asyncio.to_thread(self.log.archive.evaluation, case.attempt)
        request = self._request(case, case.code, besides=(first,) if first else ())
        for _ in range(MEASURED_AGAIN):
            evaluation = await self._run(case, request)
            if not exclusion_reason(evaluation):
                return await self._record(case.attempt, evaluation, confirms=True)
        return None

    async def reuse(self, attempt: Attempt, twin: Attempt) -> Attempt:
        """Give an attempt the evaluation of another with the same candidate."""
        confirms = twin.evaluation is not None and twin.evaluation.confirms
        return await self._record(attempt, self.evaluation(twin), reused_from=twin.id, confirms=confirms)

    def evaluation(self, attempt: Attempt) -> Evaluation:
        """The recorded evaluation of an attempt; raises NoAttemptError where there is none."""
        evaluation = self.log.archive.evaluation(attempt)
        if evaluation is None:
            raise NoAttemptError(f"attempt {attempt.id} was not evaluated")
        return evaluation

    def report(self, attempt: Attempt, *, recorded: bool) -> None:
        """Emit the event of an evaluation."""
        if attempt.evaluation is None:
            return
        line = attempt.evaluation
        self.emit(
            Judged(
                of=attempt.key,
                status=line.score.status,
                speedup=attempt.speedup,
                detail=line.score.detail,
                reused=line.reused_from is not None,
                confirms=line.confirms,
                recorded=recorded,
                contended=bool(line.score.contended),
            )
        )

    async def skip(self, problem: str, message: str) -> None:
        """Record that a problem cannot be evaluated with these settings."""
        if problem not in self.skipped:
            self.skipped[problem] = message
            line = ProblemSkipped(at=now(), problem=problem, message=message)
            await asyncio.to_thread(self.log.append, line)
            self.emit(Skipped(problem=problem, message=message))

    def _request(self, case: Case, code: str, besides: tuple[Evaluation, ...] = ()) -> EvaluationRequest:
        candidate = Candidate(source=code, backend=case.attempt.key.backend)
        return EvaluationRequest(case.problem, candidate, self.config, besides)

    async def _put(self, case: Case, request: EvaluationRequest) -> Attempt:
        return await self._record(case.attempt, await self._run(case, request))

    async def _run(self, case: Case, request: EvaluationRequest) -> Evaluation:
        evaluate = self.evaluate_one
        if evaluate is None:
            raise NoAttemptError("left to be evaluated later")
        loop = asyncio.get_running_loop()
        name = case.attempt.key

        def begin() -> None:
            self._running.add(name.attempt)
            case.begun()
            self.emit(Judging(of=name))

        def enter(stage: Stage) -> None:
            _tell(loop, lambda: self.emit(StageEntered(of=name, stage=stage)))

        def refuse_if_over() -> None:
            if self.stop.is_evaluation_over:
                raise NoAttemptError(self.stop.reason)

        told: int | None = -1

        def wait(ahead: int | None) -> None:
            # It has not begun: a resume submits it again.
            nonlocal told
            refuse_if_over()
            if ahead == told:
                return
            told = ahead
            _tell(loop, lambda: self.emit(EvaluationWaits(of=name, ahead=ahead)))

        def work() -> Evaluation:
            refuse_if_over()
            _tell(loop, begin)
            return evaluate(request, EvaluationHooks(on_stage=enter, on_queue=wait))

        try:
            return await self._guarded(case, work)
        finally:
            self._running.discard(name.attempt)

    async def _guarded(self, case: Case, work: Callable[[], Evaluation]) -> Evaluation:
        problem = case.problem.id
        if why := self.refusal(problem):
            raise NoAttemptError(why)
        try:
            evaluation = await self.workers.run(problem, work)
        except NoAttemptError:
            raise
        except (ProblemError, ConfigError) as error:
            await self.skip(problem, str(error))
            raise NoAttemptError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - a seam: what the evaluator raises is recorded, not scored
            raise await self._failure(case, error) from None
        self._failing.clear()
        return evaluation

    async def _failure(self, case: Case, error: Exception) -> NoAttemptError:
        attempt, problem = case.attempt, case.problem.id
        message = message_of(error)[:LONGEST_MESSAGE]
        self.failures += 1
        if isinstance(error, MachineError):
            self._failing.add(attempt.id)
        elif not isinstance(error, CandidateQuarantined):
            self._strikes[problem] += 1
            self._failing.add(problem)
        line = EvaluatorFailed(at=now(), attempt=attempt.id, message=message)
        await asyncio.to_thread(self.log.append, line)
        self.emit(EvaluatorTrouble(of=attempt.key, message=message))
        if len(self._failing) >= EVALUATOR_STRIKES:
            # One problem alone may be what it cannot deal with; it does not end what others have begun.
            self.stop.set(
                RunEnd.BROKEN, f"the evaluator failed {EVALUATOR_STRIKES} times in a row: {message}"
            )
        return NoAttemptError(message)

    async def _record(
        self,
        attempt: Attempt,
        evaluation: Evaluation,
        *,
        reused_from: str | None = None,
        confirms: bool = False,
    ) -> Attempt:
        evaluated = await asyncio.to_thread(
            self.log.record_evaluation, attempt, evaluation, reused_from=reused_from, confirms=confirms
        )
        self.stop.set_if_full(self.log)
        self.report(evaluated, recorded=False)
        return evaluated


def without_code(case: Case, config: EvaluationConfig) -> Evaluation:
    """Build the evaluation of a reply without a candidate; the evaluator is not called."""
    line = case.attempt.completion
    return Evaluation(
        status=Status(line.outcome),
        stage=Stage.SCREEN,
        detail="; ".join(line.notes) or line.rule.replace("_", " "),
        problem=case.problem.id,
        problem_sha=case.problem.sha,
        candidate_sha="",
        backend=case.attempt.key.backend,
        config=config,
        evaluated_at=now(),
    )


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):
        # The loop may be closed: the process is ending and no observer is left.
        loop.call_soon_threadsafe(callback)
