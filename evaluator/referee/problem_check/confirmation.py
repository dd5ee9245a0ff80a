"""Holds wrong outputs that passed once against every trial of an evaluation: a flaw is what passes them all.

On plain inputs and initial weights a sound problem may look flawed: a gate of zero hides a branch, a mask of
ones what it selects, and a sum of terms that cancel may come out alike by chance. Trials vary all of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch import nn

from kernelwright.evaluator.referee.correctness.comparison import Outputs, compare, compare_change
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.problem_check import policy
from kernelwright.evaluator.referee.problem_check.trivial_answers import (
    Examiner,
    Guess,
    Suspicion,
    alike,
    differ,
)
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.schema.problem_report import ProblemFlaw


def confirmed(suspicions: Iterable[Suspicion], pool: TrialPool, reference: Reference) -> list[ProblemFlaw]:
    """Flaws whose wrong outputs an evaluation accepts, or an allclose on inputs as they are drawn."""
    return [suspicion.flaw for suspicion in suspicions if _is_confirmed(suspicion, pool, reference)]


def _is_confirmed(suspicion: Suspicion, pool: TrialPool, reference: Reference) -> bool:
    if suspicion.is_loose and _passes_loosely(suspicion.guess, pool):
        return True
    trials = [(draw.model, trial) for draw in pool.draws for trial in draw.trials]
    if not all(_is_accepted(suspicion.guess, model, trial, pool) for model, trial in trials):
        return False
    return not (suspicion.depends_on_values and _is_refuted(suspicion, pool, reference))


def _is_refuted(suspicion: Suspicion, pool: TrialPool, reference: Reference) -> bool:
    """Look at more draws: trials share most of their lengths, indices and choices, as few draws have any."""
    model = pool.draws[0].model
    for _ in range(policy.FRESH_DRAWS):
        arguments = pool.fresh()
        output = reference.call(model, arguments)
        found = suspicion.guess(model, arguments, output)
        if found is None:
            return True
        beyond, bits = differ(output, replace(output, leaves=found))
        if beyond or (bits and suspicion.is_bitwise):
            return True
    return False


def _passes_loosely(guess: Guess, pool: TrialPool) -> bool:
    """Other tools look at the problem's own inputs alone."""
    for draw in pool.draws:
        trial = draw.trials[0]
        solved = trial.solved
        found = guess(draw.model, solved.arguments, solved.expected.output)
        if found is None or not Examiner(solved.expected, trial.limit).accepts(found).loose:
            return False
    return True


def _is_accepted(guess: Guess, model: nn.Module, trial: Trial, pool: TrialPool) -> bool:
    """Compare as the outputs of a candidate are compared."""
    outputs = _outputs(guess, model, trial)
    if outputs is None:
        return False
    compared = compare(
        outputs.expected, outputs.actual, limit=trial.limit, trial=trial.name, overall=trial.overall
    )
    if compared.mismatch is not None or trial.near is None:
        return compared.mismatch is None
    near = _outputs(guess, model, trial.near)
    return near is not None and not compare_change(
        outputs.expected, outputs.actual, near, terms=pool.trace.terms, trial=trial.name
    )


def _outputs(guess: Guess, model: nn.Module, trial: Trial) -> Outputs | None:
    solved = trial.solved
    found = guess(model, solved.arguments, solved.expected.output)
    if found is None or not alike(found, solved.expected.output.leaves):
        return None
    return Outputs(solved.expected, found)
