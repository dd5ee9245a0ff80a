"""Secret trials: draws of the problem's inputs, and variants that the reference is finite on."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.referee.correctness import policy, weight_draws
from kernelwright.evaluator.referee.correctness.input_distributions import (
    AS_GIVEN,
    CONSTANT_INPUTS,
    LARGER_WEIGHTS,
    VARIANTS,
    Starts,
    few_terms,
    has_one_sign,
    nearby,
    possible_starts,
    varied,
)
from kernelwright.evaluator.referee.correctness.limits import AS_DRAWN, limit
from kernelwright.evaluator.referee.correctness.op_trace import nonzero_terms, trace_call
from kernelwright.evaluator.referee.correctness.tolerance import expect, with_least_scales
from kernelwright.evaluator.referee.correctness.trial_cache import (
    Draw,
    Draws,
    Origin,
    SolvedTrial,
    Trial,
    TrialCache,
    count_finite,
    mark,
)
from kernelwright.evaluator.referee.reference.constant_inputs import ConstantInputs, Variation, variation_seed
from kernelwright.evaluator.referee.reference.fixed_state import have_equal_state
from kernelwright.evaluator.referee.reference.input_structure import kept_in_order, variable
from kernelwright.evaluator.referee.reference.larger_weights import has_random_weights
from kernelwright.evaluator.referee.reference.latency import with_threads
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference
from kernelwright.evaluator.schema.errors import ProblemError

_ASSERTING = re.compile(r"binary_cross_entropy\(|BCELoss\(|bernoulli|multinomial")
"""Operations that kill the CUDA context when an input leaves its domain."""

_FEW: Final = "few_terms"
_TIMED: Final = (_FEW, _FEW, "sparse", "large", "tiny", "outliers")
"""Variants that timed calls are given, too: others tell less. In two rows few terms miss one cheat in 100."""
_OF_THE_BASE: Final = frozenset({"near_duplicate"})
"""Variants that say something only beside the inputs they were made from, which candidates see first."""


class TrialPool:
    """Secret trials of one problem, shared by its candidates; solved once, as far as memory goes."""

    def __init__(
        self,
        reference: Reference,
        *,
        math: str,
        secret: random.Random,
        memory_bytes: int = policy.SOLVED_TRIALS_BYTES,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """`memory_bytes` bounds solved trials; `pause` is called before each while the pool opens."""
        self._pause: Callable[[], None] | None = pause
        self._reference = reference
        self._math = math
        self._secret = secret
        self._cache = TrialCache(memory_bytes)
        self.draws: list[Draw] = []
        self.skipped: list[str] = []
        """Variants this problem's reference does not stay finite on."""
        self._variants: dict[str, tuple[Variation, int | None]] = {
            name: (variant, None) for name, variant in VARIANTS.items()
        }
        """Each variant by its name, and the number of the input it is for; None where it is for all."""
        self.unseen: list[Trial] = []
        """Trials that no candidate is verified on, for timed calls."""
        self.constant = ConstantInputs()
        """Inputs that no draw varies."""
        self._asserts = reference.device.type == "cuda" and bool(_ASSERTING.search(reference.source))
        self._form: object = None
        """Structure, shapes and types, which all draws of the problem's inputs share."""
        self._is_used = self._are_taken = False
        self._threads = torch.get_num_threads()
        self._ordered: frozenset[int] = frozenset()
        first, base = self._seed(), self.fresh()
        reference.fixed.keep_secret(self._seed())
        weights = weight_draws.timed_weights(reference, first, base)
        model = weights.model
        self.trace = trace_call(reference, model, base)
        """Facts about the reference; each trial adds to them, and is solved with those it was made with."""
        self._vary_constants(model, base)
        self._ordered = kept_in_order(base.leaves, lambda: self.fresh().leaves)
        del base
        self._origins = [self._origin(AS_DRAWN, model) for _ in range(policy.INPUT_DRAWS)]
        self.bases = [origin.trial for origin in self._origins]
        self._origins[0].require_same_form(self._origins[1], reference.problem)
        self._first_draw(weights)
        self._second_draw(vary=not weights.vary)

    def _vary_constants(self, model: nn.Module, base: Arguments) -> None:
        """Find inputs that no draw varies, and how they may be varied."""
        self.constant = ConstantInputs.of(base.given, lambda: self.fresh().leaves)
        if self._asserts or not self.constant.found:
            return
        wanted = self._reference.call(model, base).leaves
        self.constant.choose(
            base.leaves,
            lambda leaves: weight_draws.is_as_finite(
                self._reference, model, base.with_leaves(leaves), wanted
            ),
        )

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """Inputs, parameters and buffers that no trial varies, nor timed calls."""
        varied = [draw.model for draw in sorted(self.draws, key=lambda draw: not draw.vary)]
        return (
            *(f"input {index}" for index in self.constant.unvaried),
            *self._reference.fixed.unvaried(varied[0], self._reference.effects.state),
        )

    @property
    def weight_factor(self) -> float | None:
        """Times farther from their means that random weights lie in the second draw; None without any."""
        second = self.draws[1]
        return second.spread.factor if has_random_weights(self._reference, second.model) else None

    def fresh(self) -> Arguments:
        """New inputs under a new secret seed."""
        return self._drawn(self._seed())

    def _drawn(self, seed: int, *, plain: bool = False) -> Arguments:
        """Inputs under a seed; the constant ones as the problem gives them if `plain`.

        Raises:
            ProblemError: they differ from earlier ones in more than the values of tensors.
        """
        with with_threads(self._threads):  # sums differ in their last bits with others
            arguments = self._reference.inputs(seed)
        form = arguments.args, arguments.kwargs, [(leaf.shape, leaf.dtype) for leaf in arguments.leaves]
        if self._form not in (None, form):
            raise ProblemError(
                f"problem {self._reference.problem}: get_inputs() varies in more than the values of tensors; "
                "give every draw the same shapes, dtypes and plain arguments"
            )
        self._form = form
        leaves = arguments.leaves if plain else self.constant.vary_values(arguments.leaves, seed)
        return replace(arguments, leaves=leaves, ordered=self._ordered)

    def _trial(
        self, name: str, draw: Draws, model: nn.Module, usual: list[float | None] | None = None
    ) -> Trial:
        """A trial of inputs that can be drawn again."""
        before, trace = list[int](), self.trace

        def solve() -> SolvedTrial:
            if self._pause is not None:
                self._pause()
            with with_threads(self._threads):  # variants, too, differ in their last bits with others
                arguments = draw()
            before.append(mark(arguments.leaves))
            if before[0] != before[-1]:
                # A candidate that got the earlier ones would be held to the answer of others.
                raise ProblemError(
                    f"problem {self._reference.problem}: get_inputs() draws other inputs under one seed, and "
                    "they are too large to be kept; draw them from what torch.manual_seed, random.seed and "
                    "numpy.random.seed set, without operations that add or write in no fixed order"
                )
            expected = expect(self._reference, model, arguments, self._math, trace, is_tiny=usual is not None)
            return SolvedTrial(arguments, expected if usual is None else with_least_scales(expected, usual))

        most = limit(self._math, zero_mean=name in {"zero_mean", "nearby"}, terms=trace.terms)
        overall = policy.PRECISION_LIMIT if name == _FEW else math.inf
        return Trial(name, most, solve, self._cache, overall=overall)

    def _noted(self, trial: Trial) -> Trial:
        expected = trial.expected
        self.trace = self.trace.noting(expected.flips, keeps_state=expected.output.wrote_state)
        return trial

    def _origin(self, name: str, model: nn.Module) -> Origin:
        draw = functools.partial(self._drawn, self._seed())
        return Origin.of(self._noted(self._trial(name, draw, model)), draw)

    def _variation(self, variant: Variation, origin: Origin, only: int | None = None) -> Draws:
        """Draws of varied inputs; of one of them `only`, where it is given."""
        seed = self._seed()

        def draw() -> Arguments:
            arguments = origin.draw()
            generator = torch.Generator(self._reference.device).manual_seed(seed)
            leaves = [
                leaf
                if index in self._ordered or only not in {None, index}
                else varied(variant, leaf, generator)
                for index, leaf in enumerate(arguments.leaves)
            ]
            return arguments.with_leaves(leaves)

        return draw

    def starts(self) -> Starts:
        """Draw what timed calls start from: terms that cancel, if they may; the limit is tightest there.

        Inputs near known ones could be answered from them: sign and magnitude are secret.
        """
        signed = [trial for trial in self.draws[0].trials if trial.name == "zero_mean"]
        for starts in possible_starts(signed, self.bases[0]):
            # The few that stand out may not leave their domain.
            share = 1.0 if starts.spiked else policy.FINITE_SHARE
            start, model = starts.trials[0], self.draws[0].model
            made = self._attempt(start.name, starts.scatter, self._origins[1], model, share=share)
            if made is not None:
                return replace(starts, trials=[start, made], plain=self._plain_starts(starts))
        return Starts(self.bases, policy.NEAR, signed=False)

    def _plain_starts(self, starts: Starts) -> Starts | None:
        base = self.bases[0]
        if not (starts.signed and has_one_sign(base.arguments.varying)):
            return None
        plain = Starts([base], starts.between, signed=False)
        made = self._attempt(base.name, plain.scatter, self._origins[1], self.draws[0].model)
        return None if made is None else replace(plain, trials=[base, made])

    def finish_opening(self) -> None:
        """Pause no longer before a trial is solved."""
        self._pause = None

    def begin_candidate(self) -> None:
        """Draw some trials anew for every candidate but the first: no two see the same trials."""
        if self._is_used:
            self._rotate()
        self._is_used, self._are_taken = True, False

    def take_unseen(self) -> list[Trial]:
        """Return the unseen trials; of a second time for one candidate others."""
        if self._are_taken:
            self.draw_unseen()
        self._are_taken = True
        return list(self.unseen)

    def draw_unseen(self) -> None:
        """Draw trials for timed calls, unless a call's answer hangs on those before it."""
        verified = {trial.name for trial in self.draws[0].trials}
        if not self.trace.keeps_state:
            for trial in self.unseen:
                trial.forget()
            self.unseen = [made for name in _TIMED if name in verified and (made := self._another(name))]
            with contextlib.suppress(ProblemError):
                draw = functools.partial(self._drawn, self._seed())
                self.unseen.append(self._noted(self._trial(AS_DRAWN, draw, self.draws[0].model)))

    def _rotate(self) -> None:
        first = self.draws[0]
        constant = [number for number, trial in enumerate(first.trials) if trial.name == CONSTANT_INPUTS][:1]
        for number in constant:  # its one other element may have been told
            first.trials[number].forget()
            first.trials[number] = self._constant_trial(self._origins[0], first.model, sparse=True)
        for trials in (first.trials, self.unseen):
            self._replace_one(trials)

    def _replace_one(self, trials: list[Trial]) -> None:
        """Draw one of the varied trials anew."""
        places = [number for number, trial in enumerate(trials) if trial.name in self._variants]
        made = self._another(trials[place := self._secret.choice(places)].name) if places else None
        if made is not None:
            trials[place].forget()
            trials[place] = made

    def _another(self, name: str) -> Trial | None:
        """Make a trial of the same distribution on other inputs."""
        draw = functools.partial(self._drawn, self._seed())
        origin, model = self._origins[0], self.draws[0].model
        if name not in _OF_THE_BASE:
            origin = replace(origin, trial=self._trial(AS_DRAWN, draw, model), redraw=draw)
        variant, only = self._variants[name]
        return self._attempt(name, variant, origin, model, only=only)

    def notes(self) -> list[str]:
        return [f"variants not applicable: {', '.join(self.skipped)}"] if self.skipped else []

    def _first_draw(self, weights: Draw) -> None:
        origin, model = self._origins[0], weights.model
        made = {name: self._attempt(name, variant, origin, model) for name, variant in VARIANTS.items()}
        self.skipped = [name for name, trial in made.items() if trial is None]
        trials = [self.bases[0], *filter(None, made.values())]
        trials += self._of_constants(origin, model, dense=True)
        if self._math == "fp32":
            trials += self._precision_trials(trials, model)
        self._add_draw(weights, trials)

    def _add_draw(self, weights: Draw, trials: list[Trial]) -> None:
        fixed = self._reference.fixed
        given = fixed.of_model(weights.model) if weights.vary else {}
        self.draws.append(replace(weights, trials=trials, given=given, at_construction=fixed.at_construction))

    def _precision_trials(self, trials: list[Trial], model: nn.Module) -> Iterator[Trial]:
        """Trials that tell narrow operands from sums in another order."""
        origin, longest = self._origins[0], self.trace.terms.longest
        if longest == 1:
            return
        start = next((trial for trial in trials if trial.name == "zero_mean"), trials[0])
        beside = replace(origin, trial=start, redraw=lambda: start.arguments)
        if (made := self._attempt("nearby", nearby, beside, model)) is not None:
            made.near = start
            yield made
        few, zeros, leaves = few_terms(longest), few_terms(longest, negligible=False), origin.draw().leaves
        for index in (each for each, leaf in enumerate(leaves) if leaf.dtype in policy.NEGLIGIBLE_BITS):
            if index in self._ordered or not variable(leaves[index]):
                continue
            left = nonzero_terms(self._reference, model, self._variation(zeros, origin, index)())
            if left > policy.MAX_FEW_TERMS:
                continue
            if (made := self._attempt(_FEW, few, origin, model, only=index)) is not None:
                self._variants[_FEW] = few, index
                yield made
                return

    def _second_draw(self, *, vary: bool) -> None:
        reference, seed, is_telling = self._reference, self._seed(), False
        is_moved = vary and not have_equal_state(reference.model(seed, vary=True), reference.model(seed))
        if not (self._asserts or is_moved):
            draw = functools.partial(self._drawn, self._seed())
            make = functools.partial(self._trial, LARGER_WEIGHTS, draw)
            if (found := weight_draws.enlarged(reference, seed, self.bases, make)) is not None:
                self._complete(found[0], Origin.of(self._noted(found[1]), draw))
                return
        model = reference.model(seed, vary=vary)
        try:
            origin = self._origin("other_weights", model)
            is_telling = any(map(count_finite, origin.trial.expected.output.leaves))
        except ProblemError:
            if not vary:
                raise
        if vary and not is_telling:
            self._second_draw(vary=False)  # of nothing finite every candidate would be accepted
            return
        self._complete(Draw(seed, model, vary), origin)

    def _complete(self, weights: Draw, origin: Origin) -> None:
        """Make the other trials of the second draw."""
        model, trials = weights.model, [origin.trial]
        if "zero_mean" not in self.skipped:
            trials += filter(None, [self._attempt("zero_mean", VARIANTS["zero_mean"], origin, model)])
        self._add_draw(weights, trials + self._of_constants(origin, model, dense=False))

    def _of_constants(self, origin: Origin, model: nn.Module, *, dense: bool) -> list[Trial]:
        """Trials in which inputs are varied that no draw varies, and one in which none of them is."""
        if not self.constant.chosen:
            return []
        seed = self._seed()
        made = [self._constant_trial(origin, model, sparse=sparse) for sparse in (True, False)[: 1 + dense]]
        return [*made, self._noted(self._trial(AS_GIVEN, lambda: self._drawn(seed, plain=True), model))]

    def _constant_trial(self, origin: Origin, model: nn.Module, *, sparse: bool) -> Trial:
        number = variation_seed(self._seed(), sparse=sparse)

        def draw() -> Arguments:
            arguments = origin.draw()
            return arguments.with_leaves(self.constant.vary_all(arguments.leaves, number))

        return self._noted(self._trial(CONSTANT_INPUTS, draw, model))

    def _attempt(
        self,
        name: str,
        variant: Variation,
        origin: Origin,
        model: nn.Module,
        *,
        share: float = policy.FINITE_SHARE,
        only: int | None = None,
    ) -> Trial | None:
        """A trial of varied inputs; None where they cannot vary, or the reference makes nothing of them."""
        if not origin.varies or self._asserts:
            return None
        usual = origin.usual if name == "tiny" else None
        made = self._trial(name, self._variation(variant, origin, only), model, usual)
        with contextlib.suppress(ProblemError):
            expected = self._noted(made).expected
            tells = not expected.are_ambiguous or self.bases[0].expected.are_ambiguous
            if tells and origin.is_met_by(expected.output, share):
                return made
        made.forget()
        return None

    def _seed(self) -> int:
        return self._secret.getrandbits(48)
