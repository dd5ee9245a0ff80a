"""Secret trials: draws of the problem's inputs, and variants that the reference is finite on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import torch
from torch import nn

from kernelwright.evaluator.ipc.tensor_tree import Tree, same_structure
from kernelwright.evaluator.referee.correctness.input_distributions import (
    VARIANTS,
    Starts,
    Variant,
    row,
    varied,
)
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.policy import (
    AROUND,
    BELOW,
    CHUNK_ELEMENTS,
    FINITE_SHARE,
    INPUT_DRAWS,
    NEAR,
    SOLVED_TRIALS_BYTES,
)
from kernelwright.evaluator.referee.correctness.tolerance import (
    Expected,
    expect,
    limit,
    usual_scales,
    with_least_scales,
)
from kernelwright.evaluator.referee.correctness.trial_cache import SolvedTrial, Trial, TrialCache
from kernelwright.evaluator.referee.reference.input_structure import computable, kept_in_order, variable
from kernelwright.evaluator.referee.reference.latency import with_threads
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference, same_answers
from kernelwright.evaluator.schema.errors import ProblemError

_ASSERTING = re.compile(r"binary_cross_entropy\(|BCELoss\(|bernoulli|multinomial")
"""Operations that kill the CUDA context when an input leaves its domain."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One weight draw: the disclosed seed, whether constant parameters were varied, and its trials."""

    seed: int
    vary: bool
    model: nn.Module
    trials: list[Trial]


Draws = Callable[[], Arguments]
"""Draws inputs: the same ones every time."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Structure, shapes and types, which all draws of a problem's inputs share."""

    trees: tuple[Tree, Tree]
    tensors: list[tuple[torch.Size, torch.dtype]]

    @classmethod
    def of(cls, arguments: Arguments) -> _Form:
        tensors = [(leaf.shape, leaf.dtype) for leaf in arguments.leaves]
        return cls((arguments.args, arguments.kwargs), tensors)


@dataclass(frozen=True, slots=True)
class _Origin:
    trial: Trial
    redraw: Draws
    varies: bool
    tree: Tree
    shapes: list[torch.Size]
    finite: list[int]
    """Finite elements of each output."""
    usual: list[float | None]

    @classmethod
    def of(cls, trial: Trial, redraw: Draws) -> _Origin:
        """Collect the facts that are needed when its tensors may be gone."""
        solved = trial.solved
        output = solved.expected.output
        return cls(
            trial,
            redraw,
            varies=any(map(variable, solved.arguments.varying)),
            tree=output.tree,
            shapes=[leaf.shape for leaf in output.leaves],
            finite=[_finite(leaf) for leaf in output.leaves],
            usual=usual_scales(solved.expected),
        )

    def draw(self) -> Arguments:
        """Its inputs."""
        kept = self.trial.kept
        return kept.arguments if kept is not None else self.redraw()

    def is_met_by(self, output: Output, share: float) -> bool:
        """Return whether an output has as many finite elements, but for a share."""
        return (
            same_structure(output.tree, self.tree)
            and [leaf.shape for leaf in output.leaves] == self.shapes
            and all(
                _finite(leaf) >= share * most for leaf, most in zip(output.leaves, self.finite, strict=True)
            )
        )


_SMALL: Final = "tiny"
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
        memory_bytes: int = SOLVED_TRIALS_BYTES,
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
        self._form: _Form | None = None
        self._is_used = False
        self._threads = torch.get_num_threads()
        self._ordered: frozenset[int] = frozenset()
        first = self._seed()
        base = self.fresh()
        model, vary = self._timed_with(first, base)
        self.trace = trace_call(reference, model, base)
        """Facts about the reference; each trial adds to them, and is solved with those it was made with."""
        self._ordered = kept_in_order(base.leaves, lambda: self.fresh().leaves)
        del base
        self._origins = [self._origin("as_drawn", model) for _ in range(INPUT_DRAWS)]
        self.bases = [origin.trial for origin in self._origins]
        self._require_same_form()
        self._first_draw(first, model, vary=vary)
        self._second_draw(vary=not vary)

    def _timed_with(self, seed: int, base: Arguments) -> tuple[nn.Module, bool]:
        """A model whose parameters are moved off their constants, if its outputs then stay as finite.

        A kernel may legally skip factors of zero and one that it finds among constant parameters.
        """
        plain, off = (self._reference.model(seed, vary=vary) for vary in (False, True))
        held = [[*model.parameters(), *model.buffers()] for model in (plain, off)]
        if same_answers(*held):
            return plain, False
        wanted = self._reference.call(plain, base).leaves
        try:
            found = self._reference.call(off, base).leaves
        except ProblemError:
            return plain, False
        is_met = len(found) == len(wanted) and all(
            one.shape == other.shape and _finite(one) >= _finite(other)
            for one, other in zip(found, wanted, strict=True)
        )
        return (off, True) if is_met else (plain, False)

    def fresh(self) -> Arguments:
        """New inputs under a new secret seed."""
        return self._drawn(self._seed())

    def _drawn(self, seed: int) -> Arguments:
        """Inputs under a seed.

        Raises:
            ProblemError: they differ from earlier ones in more than the values of tensors.
        """
        with with_threads(self._threads):  # sums differ in their last bits with others
            arguments = self._reference.inputs(seed)
        form = _Form.of(arguments)
        if form != (self._form or form):
            raise ProblemError(
                f"problem {self._reference.problem}: get_inputs() varies in more than the values of tensors; "
                "give every draw the same shapes, dtypes and plain arguments"
            )
        self._form = form
        return replace(arguments, ordered=self._ordered)

    def _trial(
        self, name: str, draw: Draws, model: nn.Module, usual: list[float | None] | None = None
    ) -> Trial:
        """A trial of inputs that can be drawn again."""
        before: list[int] = []
        trace = self.trace

        def solve() -> SolvedTrial:
            if self._pause is not None:
                self._pause()
            arguments = draw()
            before.append(_mark(arguments.leaves))
            if before[0] != before[-1]:
                # A candidate that got the earlier ones would be held to the answer of others.
                raise ProblemError(
                    f"problem {self._reference.problem}: get_inputs() draws other inputs under one seed, and "
                    "they are too large to be kept; draw them from what torch.manual_seed, random.seed and "
                    "numpy.random.seed set, without operations that add or write in no fixed order"
                )
            expected = expect(self._reference, model, arguments, self._math, trace)
            return SolvedTrial(arguments, expected if usual is None else with_least_scales(expected, usual))

        most = limit(self._math, zero_mean=name == "zero_mean", terms=trace.terms)
        return Trial(name, most, solve, self._cache)

    def _note(self, expected: Expected) -> None:
        self.trace = self.trace.noting(expected.decisions.flips, keeps_state=expected.output.wrote_state)

    def _origin(self, name: str, model: nn.Module) -> _Origin:
        seed = self._seed()

        def draw() -> Arguments:
            return self._drawn(seed)

        trial = self._trial(name, draw, model)
        self._note(trial.expected)
        return _Origin.of(trial, draw)

    def _require_same_form(self) -> None:
        """Memory for outputs is laid out once: every draw has to fill it."""
        one, other = self._origins
        if not same_structure(one.tree, other.tree) or one.shapes != other.shapes:
            shapes = (", ".join(str(tuple(shape)) for shape in origin.shapes) for origin in self._origins)
            raise ProblemError(
                f"problem {self._reference.problem}: two draws of inputs give outputs of different shapes: "
                f"{' and '.join(shapes)}; return the same shapes for every draw"
            )

    def _variation(self, variant: Variant, origin: _Origin) -> Draws:
        seed = self._seed()

        def draw() -> Arguments:
            arguments = origin.draw()
            generator = torch.Generator(self._reference.device).manual_seed(seed)
            leaves = [
                leaf if index in self._ordered else varied(variant, leaf, generator)
                for index, leaf in enumerate(arguments.leaves)
            ]
            return arguments.with_leaves(leaves)

        return draw

    def starts(self) -> Starts:
        """Draw what timed calls start from: terms that cancel, if they may; the limit is tightest there.

        Inputs near known ones could be answered from them: by derivatives, or by narrower arithmetic for the
        small difference. Sign and magnitude are secret, so none is near another.
        """
        signed = [trial for trial in self.draws[0].trials if trial.name == "zero_mean"]
        for start, spiked, between in product(
            # Around one first: smaller inputs alone would pass thresholds less often.
            [*signed, self.bases[0]],
            (row(self.bases[0].arguments.varying), 0),
            (AROUND, BELOW),
        ):
            starts = Starts([start], between, signed=start in signed, spiked=spiked)
            share = 1.0 if spiked else FINITE_SHARE  # the few that stand out may not leave their domain
            model = self.draws[0].model
            made = self._attempt(start.name, starts.scatter, self._origins[1], model, share=share)
            if made is not None:
                return replace(starts, trials=[start, made])
        return Starts(self.bases, NEAR, signed=False)

    def finish_opening(self) -> None:
        """Pause no longer before a trial is solved."""
        self._pause = None

    def begin_candidate(self) -> None:
        """Draw a varied trial anew for every candidate but the first: no two see the same trials."""
        if self._is_used:
            self._rotate()
        self._is_used = True

    def _rotate(self) -> None:
        first = self.draws[0]
        places = [number for number, trial in enumerate(first.trials) if trial.name in VARIANTS]
        if not places:
            return
        place, seed = self._secret.choice(places), self._seed()
        old = first.trials[place]

        def draw() -> Arguments:
            return self._drawn(seed)

        origin = self._origins[0]
        if old.name not in _OF_THE_BASE:
            origin = replace(origin, trial=self._trial("as_drawn", draw, first.model), redraw=draw)
        made = self._attempt(old.name, VARIANTS[old.name], origin, first.model)
        if made is not None:
            first.trials[place] = made
            old.forget()

    def notes(self) -> list[str]:
        """Variants that are not applicable to this problem."""
        return [f"variants not applicable: {', '.join(self.skipped)}"] if self.skipped else []

    def _first_draw(self, seed: int, model: nn.Module, *, vary: bool) -> None:
        trials = [self.bases[0]]
        for name, variant in VARIANTS.items():
            made = self._attempt(name, variant, self._origins[0], model)
            if made is None:
                self.skipped.append(name)
            else:
                trials.append(made)
        self.draws.append(Draw(seed, vary, model, trials))

    def _second_draw(self, *, vary: bool) -> None:
        seed = self._seed()
        model = self._reference.model(seed, vary=vary)
        origin = self._origin("other_weights", model)
        trials = [origin.trial]
        if "zero_mean" not in self.skipped:
            made = self._attempt("zero_mean", VARIANTS["zero_mean"], origin, model)
            trials += [made] if made is not None else []
        self.draws.append(Draw(seed, vary, model, trials))

    def _attempt(
        self,
        name: str,
        variant: Variant,
        origin: _Origin,
        model: nn.Module,
        *,
        share: float = FINITE_SHARE,
    ) -> Trial | None:
        """A trial of varied inputs; None where they cannot vary, or the reference makes nothing of them."""
        if not origin.varies:
            return None
        if self._reference.device.type == "cuda" and _ASSERTING.search(self._reference.source):
            return None
        usual = origin.usual if name == _SMALL else None
        made = self._trial(name, self._variation(variant, origin), model, usual)
        try:
            expected = made.expected
            self._note(expected)
            if origin.is_met_by(expected.output, share):
                return made
        except ProblemError:
            pass
        made.forget()
        return None

    def _seed(self) -> int:
        return self._secret.getrandbits(48)


def _mark(leaves: list[torch.Tensor]) -> int:
    """A number that tells tensors from others, bit for bit, but for their order."""
    found = 0
    for leaf in leaves:
        held = leaf.resolve_conj().contiguous().view(-1)
        whole = held.view(torch.int32 if leaf.element_size() % 4 == 0 else torch.uint8)
        for number, part in enumerate(torch.split(whole, CHUNK_ELEMENTS)):
            found += (number + 1) * int(part.sum(dtype=torch.int64))
    return found


def _finite(leaf: torch.Tensor) -> int:
    return int(computable(leaf).isfinite().count_nonzero())
