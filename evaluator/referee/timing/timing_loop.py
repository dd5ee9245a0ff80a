"""The timing loop: candidate and baseline alternate on the same fresh inputs.

It ends when the interval is tight, the candidate hopelessly slow, or turns or time are used up.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.correctness.discontinuities import FlippedElements
from kernelwright.evaluator.referee.correctness.trial_cache import Trial
from kernelwright.evaluator.referee.correctness.verification import describe
from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.claimed_time import (
    Batch,
    PairedTurns,
    Turn,
    TurnLog,
    merged_work_ms,
    scored_turns,
    slower_kind,
)
from kernelwright.evaluator.referee.timing.statistics import ratio_interval
from kernelwright.evaluator.referee.timing.timed_inputs import ComparedCall, InputRecipe, TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs
from kernelwright.evaluator.referee.timing.timed_turn import TurnRunner
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.schema.evaluation import Status

WRONG_WHEN_TIMED: Final = "right when verified, wrong when timed"


class WrittenAhead(Exception):
    """Outputs of queued calls are right only if nothing is written over them before the calls begin."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Limits on the turns of one comparison."""

    batch: Batch
    target_ms: float
    """Time of either worker before the interval is looked at, unless calls are queued and none is charged."""
    max_turns: int
    call_timeout_s: float
    fastest_share: float = 1.0
    """Time of the fastest baseline, as a share of the time of the one that is timed."""
    untrusted: bool = True
    """True if a candidate is timed: single calls, hidden trials, other structures of inputs and a look at the
    outputs of every turn find what workers of the reference do not do; theirs are compared once."""


class InterleavedTimer:
    """Times workers in batches of one size."""

    def __init__(
        self,
        device: Device,
        inputs: TimedInputs,
        outputs: TimedOutputs,
        schedule: Schedule,
        secret: random.Random,
        *,
        unseen: Callable[[], Sequence[Trial]] = tuple,
    ) -> None:
        """Calls on `unseen` trials, others each time, are hidden in a candidate's batches."""
        self.batch = schedule.batch
        self._unseen = unseen
        self._inputs = inputs
        self._outputs = outputs
        self._schedule = schedule
        self._secret = secret
        self._runner = TurnRunner(
            device, inputs, secret, queued=self.batch.queued, call_timeout_s=schedule.call_timeout_s
        )
        self._flipped: Mapping[int, FlippedElements] = {}
        """Elements that flipped in the comparison so far, by output."""
        self._spiked: list[bool] = []
        """Kinds of the next turns; both come equally often, in an order that nobody knows."""
        self._earlier: dict[bool, ComparedCall | None] = {}
        """A compared call of each kind, near whose inputs a later one's may be."""
        self._kept: list[ComparedCall] = []
        """Calls to compare with exact outputs, of so many seen."""
        self._seen = 0
        self._agrees = False
        """True once outputs of both workers agreed."""

    def compare(self, candidate: CallBuffers, baseline: CallBuffers) -> PairedTurns:
        """Alternate until the interval is tight, the candidate hopelessly slow, or turns or time used up.

        Raises:
            CandidateFailed: a timed output is wrong, or a worker failed or hung.
            WrittenAhead: calls have to be timed with their launches.
        """
        turns, stop = PairedTurns(self.batch), StopRule(self._schedule)
        most = self._schedule.max_turns * policy.TURNS_FACTOR[self.batch.kind]
        hidden = self._trials_by_turn(most)
        varied = self._secret.randint(1, min(most, _fewest_turns(self.batch)))
        while not stop.is_reached(turns):
            spiked = self._next_kind()
            with self._first_turn_of(turns, candidate, baseline):
                turn = self._turn(candidate, baseline, self.batch.calls, spiked=spiked)
            turns.add_batch(*turn, spiked=spiked)
            while self._wants_single_call(turns):
                turns.add_single_call(*self._turn(candidate, baseline, 1, is_lone=True))
            is_sure = len(turns.candidate.batches) == varied
            if self._varies and (is_sure or self._secret.random() < policy.VARIED_TURN_CHANCE):
                self._turn(candidate, baseline, self._secret.choice((1, self.batch.calls)), varied=True)
            for trials in hidden.pop(len(turns.candidate.batches), ()):
                self._trial_turn(candidate, trials)
        for trials in itertools.chain(*hidden.values()):
            self._trial_turn(candidate, trials)
        if self._varies:
            self._turn(candidate, baseline, self.batch.calls, varied=True)
        may_differ = self._inputs.has_kinds and self._schedule.untrusted
        return slower_kind(turns) if may_differ else turns

    def add_lone_calls(self, turns: PairedTurns, candidate: CallBuffers, baseline: CallBuffers) -> None:
        """On a CPU, time calls one by one in warm processes.

        They come last: what a candidate works ahead in the calls that warm it up helps no batch. They end
        early where nothing is in doubt: more of them could only show that the least one costs less.

        Raises:
            CandidateFailed: as `compare` does.
        """
        if self.batch.kind != "cpu" or not self._may_merge(turns):
            return
        is_short = turns.candidate_call_ms < policy.SHORT_CALL_MS
        calls = policy.MAX_SHORT_SINGLE_CALLS if is_short else policy.MAX_SINGLE_CALLS["cpu"]
        for done in range(calls):
            is_due = done >= policy.STEADY_VALUES and done % policy.CLEARING_STEP == 0
            if is_due and not merged_work_ms(turns, tolerance=policy.CLEARING_SHARE):
                break
            turns.add_single_call(*self._turn(candidate, baseline, 1, is_lone=True))

    def take_kept(self) -> list[ComparedCall]:
        """Hand over the calls that were kept since the last time, to be compared with exact outputs."""
        kept, self._kept, self._seen = self._kept, [], 0
        return kept

    def _next_kind(self) -> bool:
        """Decide if elements stand out in the next batch's inputs: they make some work unnecessary."""
        if not self._spiked:
            self._spiked = [True, False]
            self._secret.shuffle(self._spiked)
        return self._spiked.pop()

    @property
    def _varies(self) -> bool:
        """Inputs that no draw varies are varied in turns that are compared and not scored."""
        return self._inputs.varies_structure and self._schedule.untrusted

    def _trials_by_turn(self, turns: int) -> dict[int, list[list[Trial]]]:
        """Spread unseen trials over all turns there may be: which calls are theirs, nobody can tell.

        The first come among the fewest turns: who cheats in those alone meets them.
        """
        trials = list(self._unseen()) if self._schedule.untrusted else []
        self._secret.shuffle(trials)
        step = max(1, min(policy.TRIALS_PER_TURN, self.batch.calls // 2))
        hidden: dict[int, list[list[Trial]]] = {}
        for begin in range(0, len(trials), step):
            last = turns if begin else min(turns, _fewest_turns(self.batch))
            hidden.setdefault(self._secret.randint(1, last), []).append(trials[begin : begin + step])
        return hidden

    def _trial_turn(self, candidate: CallBuffers, trials: list[Trial]) -> None:
        """Run a batch some of whose calls are trials, and compare these with exact outputs.

        Their inputs may take more or less time than others, so the batch is not scored.
        """
        calls = self._secret.sample(range(self.batch.calls), len(trials))
        given = {
            call: dict(enumerate(trial.arguments.leaves)) for call, trial in zip(calls, trials, strict=True)
        }
        recipe = self._inputs.recipe(self.batch.calls, given=given)
        _, outputs = self._runner.run(candidate, recipe, lead=self.batch.lead, overwrites=True)
        for call, trial in zip(calls, trials, strict=True):
            found = trial.compare([leaf[call] for leaf in outputs if len(leaf) == recipe.count])
            if found.mismatch is not None:
                detail = f"{WRONG_WHEN_TIMED}: {describe(found.mismatch)}"
                raise CandidateFailed(Status.WRONG_VALUES, detail)

    def solo(self, buffers: CallBuffers, turns: int) -> TurnLog:
        """Time one worker by itself."""
        return TurnLog([self._solo_turn(buffers) for _ in range(turns)])

    def probe(self, buffers: CallBuffers) -> tuple[float, bool]:
        """Return the least claimed time of a call in a few turns, or one slow turn, and if any was queued."""
        log: list[Turn] = []
        while (
            len(log) < policy.PROBE_TURNS[self.batch.kind]
            and max((turn.claimed_ms for turn in log), default=0.0) < policy.SLOW_PROBE_MS
        ):
            log.append(self._solo_turn(buffers))
            if self.batch.count > 1 and self.batch.queued and log[-1].launch_ms is None:
                break  # a full queue is waited for long
        queued = any(turn.launch_ms is not None for turn in log)
        return min(turn.claimed_ms for turn in log) / self.batch.count, queued

    def _solo_turn(self, buffers: CallBuffers) -> Turn:
        recipe = self._inputs.recipe(self.batch.calls)
        return self._runner.run(buffers, recipe, lead=self.batch.lead, overwrites=False)[0]

    def _turn(
        self,
        candidate: CallBuffers,
        baseline: CallBuffers,
        calls: int,
        *,
        varied: bool = False,
        spiked: bool = True,
        is_lone: bool = False,
    ) -> tuple[Turn, Turn]:
        """Run both once, in random order, on the same inputs, and compare their outputs."""
        # On a CPU lone calls come last, where many near one earlier call would stand out.
        earlier = None if is_lone and self.batch.kind == "cpu" else self._earlier.get(spiked)
        recipe = (
            self._inputs.varied_recipe(calls)
            if varied
            else self._inputs.recipe(calls, earlier, spiked=spiked)
        )
        lead = self.batch.lead if calls == self.batch.calls else 0
        (turn, outputs), (baseline_turn, expected) = self._run_both(
            candidate, baseline, recipe, lead=lead, is_lone=is_lone
        )
        if not varied and self._schedule.untrusted:
            self._earlier[spiked] = chosen = self._chosen(recipe, outputs, expected)
            self._keep_some(chosen)
        return turn, baseline_turn

    def _run_both(
        self,
        candidate: CallBuffers,
        baseline: CallBuffers,
        recipe: InputRecipe,
        *,
        lead: int,
        is_lone: bool = False,
        spoils: bool = True,
    ) -> list[tuple[Turn, list[torch.Tensor]]]:
        """Run candidate and baseline on the same inputs and compare what they return."""
        order = [candidate, baseline]
        self._secret.shuffle(order)
        overwrites = self._schedule.untrusted
        done = {
            id(buffers): self._runner.run(
                buffers, recipe, lead=lead, overwrites=overwrites, is_lone=is_lone, spoils=spoils
            )
            for buffers in order
        }
        (_, outputs), (_, expected) = both = [done[id(candidate)], done[id(baseline)]]
        if self._agrees and not self._schedule.untrusted:
            return both
        found = self._outputs.compare(outputs, expected, recipe, self._flipped)
        self._flipped = found.flipped
        if found.mismatch:
            raise CandidateFailed(Status.WRONG_VALUES, f"{WRONG_WHEN_TIMED}: {found.mismatch}")
        self._agrees = True
        return both

    @contextlib.contextmanager
    def _first_turn_of(
        self, turns: PairedTurns, candidate: CallBuffers, baseline: CallBuffers
    ) -> Iterator[None]:
        """Where the first queued turn is wrong, see if the next is right with no output spoiled."""
        try:
            yield
        except CandidateFailed as failure:
            is_wrong = failure.status is Status.WRONG_VALUES
            if turns.candidate.batches or not (is_wrong and self.batch.queued and self._schedule.untrusted):
                raise
            recipe = self._inputs.recipe(self.batch.calls)
            self._run_both(candidate, baseline, recipe, lead=self.batch.lead, spoils=False)
            raise WrittenAhead from failure

    def _chosen(
        self, recipe: InputRecipe, outputs: list[torch.Tensor], expected: list[torch.Tensor]
    ) -> ComparedCall | None:
        """Choose a call of this turn to keep.

        Skip a nearby call: its recipe alone cannot reproduce its inputs.
        """
        calls = [call for call in range(recipe.count) if recipe.near is None or call != recipe.near.call]
        if not calls:
            return None
        call = self._secret.choice(calls)
        # Of state there is one for all calls.
        one, other = (
            [leaf[min(call, len(leaf) - 1)].clone() for leaf in leaves] for leaves in (outputs, expected)
        )
        drawn = [leaves if number == call else {} for number, leaves in enumerate(recipe.drawn)]
        own = sum(len(leaf) == recipe.count for leaf in outputs)
        return ComparedCall(replace(recipe, drawn=drawn, near=None), call, one, other, own)

    def _keep_some(self, call: ComparedCall | None) -> None:
        """Keep some calls of all that a candidate made, each as likely as any other."""
        if call is None:
            return
        self._seen += 1
        if len(self._kept) < policy.EXACT_CALLS:
            self._kept.append(call)
        elif (place := self._secret.randrange(self._seen)) < policy.EXACT_CALLS:
            self._kept[place] = call

    def _wants_single_call(self, turns: PairedTurns) -> bool:
        """Decide on a GPU's secret single call: about every other turn, twice at least; more of short calls.

        A candidate that loses anyway has nothing to merge.
        """
        if self.batch.kind == "cpu" or not self._may_merge(turns):
            return False
        done, batches = len(turns.candidate.single_calls), len(turns.candidate.batches)
        if turns.candidate_call_ms < policy.SHORT_CALL_MS:
            if not self.batch.queued:
                return done < policy.MAX_SHORT_SINGLE_CALLS * min(1.0, batches / _fewest_turns(self.batch))
            # To the end: what merges its calls in later turns alone meets some, too.
            most = min(2 * batches, policy.MAX_QUEUED_SINGLE_CALLS)
            in_doubt = done >= batches and merged_work_ms(turns, tolerance=policy.CLEARING_SHARE) > 0
            return done < (most if in_doubt else min(batches, most))
        if done >= policy.MAX_SINGLE_CALLS[self.batch.kind]:
            return False
        is_due = done < batches // policy.SINGLE_CALL_TURNS
        return is_due or self._secret.random() < policy.SINGLE_CALL_CHANCE

    def _may_merge(self, turns: PairedTurns) -> bool:
        return self._schedule.untrusted and self.batch.count > 1 and not turns.is_lost


class StopRule:
    """Ends one comparison, whose time begins now."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._batch = schedule.batch
        self._started = time.monotonic()
        self._next_look = _fewest_turns(schedule.batch)

    def is_reached(self, turns: PairedTurns) -> bool:
        """Return whether more turns would tell little."""
        count, kind = len(turns.candidate.batches), self._batch.kind
        factor = policy.TURNS_FACTOR[kind]
        if count >= self._schedule.max_turns * factor:
            return True
        if count >= policy.HOPELESS_TURNS * factor and self._is_hopeless(turns):
            return True
        if count < _fewest_turns(self._batch):
            return False
        if time.monotonic() - self._started > policy.COMPARISON_S[kind]:
            return True
        taken_ms = max(
            sum(turn.answered_ms for turn in log.batches) for log in (turns.candidate, turns.baseline)
        )
        if count < self._next_look:
            return False
        # Claims of queued calls hardly vary, so how long they take says nothing; charges do vary.
        is_short = taken_ms < self._schedule.target_ms
        if is_short and not (self._batch.queued and scored_turns(turns).clock == "inner"):
            return False
        self._next_look = math.ceil(count * policy.LOOK_FACTOR)
        return self._is_tight(turns)

    def _is_hopeless(self, turns: PairedTurns) -> bool:
        candidate, baseline = (
            self._batch.typical([turn.claimed_ms for turn in log.batches])
            for log in (turns.candidate, turns.baseline)
        )
        return baseline < policy.HOPELESS_RATIO * candidate

    def _is_tight(self, turns: PairedTurns) -> bool:
        kind = self._batch.kind
        baseline_ms = [turn.claimed_ms for turn in turns.baseline.batches]
        share = policy.TYPICAL_QUANTILE[kind]
        interval = ratio_interval(baseline_ms, scored_turns(turns).batch_ms, share=share)
        most = policy.TIGHT_INTERVAL[kind]
        if interval.low * self._schedule.fastest_share > policy.LOST_SHARE:
            most = policy.WON_INTERVAL[kind]
        elif interval.high < 1 / policy.LOST_SHARE:
            most = policy.LOST_INTERVAL
        return interval.high - interval.low <= 2 * most * interval.low


def _fewest_turns(batch: Batch) -> int:
    return policy.FEWEST_TURNS * policy.TURNS_FACTOR[batch.kind]
