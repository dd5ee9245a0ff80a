"""Fresh inputs for timed calls: secret draws times secret noise, written straight into shared memory.

No timed call sees inputs that any earlier call saw, so an answer kept by address, shape, fingerprint or
content is an answer to another question. They are published by being written, while the worker is frozen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch

from kernelwright.evaluator.ipc.tensor_layout import Slot, stacked
from kernelwright.evaluator.referee.correctness.input_distributions import (
    Starts,
    cached,
    harden,
    nearby,
    varied,
)
from kernelwright.evaluator.referee.correctness.policy import (
    FEW_ZEROS,
    FEWEST_SCATTERED,
    NEARBY,
    PRECISE_TYPES,
)
from kernelwright.evaluator.referee.reference.constant_inputs import ConstantInputs
from kernelwright.evaluator.referee.reference.input_structure import Keeper, keeper, variable
from kernelwright.evaluator.referee.reference.reference import Arguments
from kernelwright.evaluator.referee.timing import policy


@dataclass(frozen=True, slots=True)
class InputRecipe:
    """Recipe of the inputs of one batch; the same for both workers of a turn."""

    bases: torch.Tensor
    """Number of the draw each call starts from, shape [count]."""
    offset: int
    stride: int
    noise: dict[torch.dtype, torch.Tensor]
    """Factors that each call starts reading at its own place; empty where there are whole new draws."""
    drawn: list[dict[int, torch.Tensor]] = field(default_factory=list)
    """Per call, newly drawn inputs by their place: those whose noise would not make them new."""
    given: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    """By call, inputs that it is given instead, by their place."""
    near: Near | None = None
    """A call that is given inputs near those of an earlier batch."""
    plain: bool = False
    """True if inputs keep the signs of the problem's own, though those of other batches do not."""

    @property
    def count(self) -> int:
        return self.bases.numel()

    def of_call(self, call: int) -> InputRecipe:
        """Recipe of one of the calls alone."""
        only, near = slice(call, call + 1), self.near
        return replace(
            self,
            bases=self.bases[only],
            offset=self.offset + call * self.stride,
            drawn=self.drawn[only],
            given={0: self.given[call]} if call in self.given else {},
            near=Near(0, near.earlier) if near is not None and near.call == call else None,
        )


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """A timed call of an earlier batch, with both workers' outputs."""

    recipe: InputRecipe
    call: int
    candidate: list[torch.Tensor]
    baseline: list[torch.Tensor]
    own: int = 0
    """Of the candidate's outputs, how many are of this call alone: behind them comes what all calls left."""


@dataclass(frozen=True, slots=True)
class Near:
    """A call whose inputs lie near those of an earlier one."""

    call: int
    earlier: ComparedCall


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One input, over all draws."""

    stack: torch.Tensor | None
    """The draws, shape [draws, *shape]; None where their shapes differ."""
    is_noisy: bool = False
    """True if noise may be multiplied in."""
    keep: Keeper | None = None
    """Gives noise the input's structure."""
    is_hard: bool = False
    """True if products are hardened against narrower arithmetic."""

    @classmethod
    def of(cls, draws: tuple[torch.Tensor, ...], *, is_ordered: bool) -> _Leaf:
        """Stack an input's draws; look at their structure."""
        if not _alike(draws):
            return cls(None)
        stack = torch.stack(draws)
        if is_ordered or not variable(stack):
            return cls(stack)
        is_hard = stack.dtype == torch.float32 and _is_plain(stack)
        return cls(stack, is_noisy=True, keep=keeper(stack), is_hard=is_hard)


class TimedInputs:
    """Makes and publishes inputs."""

    def __init__(
        self,
        starts: Starts,
        fresh: Callable[[], Arguments],
        *,
        secret: random.Random,
        constant: ConstantInputs | None = None,
        may_be_near: bool = True,
    ) -> None:
        """Unless inputs `may_be_near` earlier ones, no call's are: they could leave their domain."""
        self.trials = starts.trials
        self.plain = starts.plain.trials if starts.plain is not None else []
        """Trials that calls of `plain` batches start from; they are numbered behind the others."""
        bases = [*self.trials, *self.plain]
        self._starts = starts
        self._constant = constant or ConstantInputs()
        self.varies_structure = bool(self._constant.structural_variations(bases[0].arguments.leaves, 0))
        """True if some inputs are varied in turns that are not scored, as that changes the work."""
        self._fresh = fresh
        self._secret = secret
        leaves = [trial.arguments.leaves for trial in bases]
        given = len(bases[0].arguments.given)
        self._draws = len(self.trials)
        self._ordered = bases[0].arguments.ordered
        self._leaves = [
            _Leaf.of(group, is_ordered=index in self._ordered)
            for index, group in enumerate(zip(*leaves, strict=True))
        ]
        noisy = [leaf.stack for leaf in self._leaves if leaf.stack is not None and leaf.is_noisy]
        # Noise on cotangents alone would leave outputs as they were; on complex numbers there is none.
        self.whole_draws = (
            not any(leaf.is_noisy for leaf in self._leaves[:given])
            or any(leaf.stack is None for leaf in self._leaves)
            or any(leaf.is_complex() for leaf in leaves[0])
        )
        self._redrawn = [
            index for index, leaf in enumerate(self._leaves) if self.whole_draws or _comes_again(leaf)
        ]
        self._made: tuple[InputRecipe, list[torch.Tensor]] | None = None
        """The last batch's inputs, on a CPU."""
        self.rehearsed: set[tuple[int, bool, bool]] = set()
        """Kinds of batches whose kernels this process has loaded."""
        self._floating = {stack.dtype: stack.device for stack in noisy}
        self._longest = max((stack[0].numel() for stack in noisy), default=0)
        self._moves = {
            index
            for index, leaf in enumerate(leaves[0])
            if may_be_near
            and leaf.dtype in PRECISE_TYPES
            and index not in self._ordered
            and (variable(leaf) if self.whole_draws else self._leaves[index].is_noisy)
        }
        """Inputs that differ from the earlier ones in a nearby call."""

    def max_calls(self, wanted: int) -> int:
        """Limit a batch whose inputs are drawn each time, which is slow: noise does not make them new."""
        if not self._redrawn:
            return wanted
        elements = sum(leaf.numel() for leaf in self._starts.trials[0].arguments.leaves)
        is_small = elements <= policy.SMALL_DRAW_ELEMENTS
        return min(wanted, policy.MAX_SMALL_DRAWN_CALLS if is_small else policy.MAX_DRAWN_CALLS)

    @property
    def redraws(self) -> bool:
        """True where any input is drawn anew for each call."""
        return bool(self._redrawn)

    @property
    def has_kinds(self) -> bool:
        """True where inputs of some batches have elements that stand out, or signs, and of others not."""
        return bool(self._starts.spiked or self.plain) and not self.whole_draws

    def recipe(
        self,
        count: int,
        earlier: ComparedCall | None = None,
        *,
        spiked: bool = True,
        given: dict[int, dict[int, torch.Tensor]] | None = None,
    ) -> InputRecipe:
        """Decide on the inputs of a batch; one call's may be near those of an earlier call.

        Unless `spiked`, no element stands out, and all have the signs that the problem gives them; some calls
        may be `given` inputs instead.
        """
        plain = self._starts.plain if not (spiked or self.whole_draws) else None
        draws = 1 if self.has_kinds else self._draws  # the others are moved by such factors already
        first = 0 if plain is None else len(self.trials)
        bases = torch.tensor([first + self._secret.randrange(draws) for _ in range(count)], device="cpu")
        drawn = [self._draw() for _ in range(count)] if self._redrawn else []
        near = self._near(count, earlier) if earlier is not None and plain is None else None
        if near is not None:
            bases[near.call] = near.earlier.recipe.bases[near.earlier.call]
            if drawn:
                drawn[near.call] = self._moved(near.earlier.recipe.drawn[near.earlier.call])
        step = policy.NOISE_STEP
        stride = step * self._secret.randrange(1, max(2, policy.NOISE_SLACK // (2 * count * step)))
        offset = step * self._secret.randrange(max(1, (policy.NOISE_SLACK - stride * count) // step))
        starts = self._starts if spiked else plain or replace(self._starts, spiked=0)
        noise = {} if self.whole_draws else self._draw_noise(starts)
        return InputRecipe(bases, offset, stride, noise, drawn, given or {}, near, plain=plain is not None)

    def varied_recipe(self, count: int) -> InputRecipe:
        """Decide on the inputs of a batch; one call to half of them get other masks, lengths and orders."""
        leaves = self._starts.trials[0].arguments.leaves
        others = self._constant.structural_variations(leaves, self._secret.getrandbits(48))
        most = max(1, count // 2)
        # Mostly few of them: looking at some calls is not to tell what the others are.
        calls = self._secret.sample(range(count), round(most ** self._secret.random() ** 2))
        return self.recipe(count, given=dict.fromkeys(calls, others))

    def another(self, recipe: InputRecipe) -> InputRecipe:
        """Make a recipe of the same kind, with other inputs."""
        leaves = self.trials[0].arguments.leaves
        given = {call: {index: leaves[index] for index in own} for call, own in recipe.given.items()}
        return replace(self.recipe(recipe.count, given=given), near=recipe.near)

    def _near(self, count: int, earlier: ComparedCall) -> Near | None:
        """Choose a call for nearby inputs; seldom of few: it could be worked out from the earlier one."""
        if not self._moves or (self._redrawn and count < policy.REDRAWN_CALLS_PER_PAIR):
            return None
        if self._secret.random() >= max(policy.LEAST_PAIRED, count / policy.CALLS_PER_PAIR):
            return None
        return Near(self._secret.randrange(count), earlier)

    def _moved(self, drawn: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Inputs of an earlier call that were drawn for it; nearby ones where no noise is to move them."""
        if not self.whole_draws:
            return drawn
        moved = {}
        for index, leaf in drawn.items():
            generator = torch.Generator(leaf.device).manual_seed(self._secret.getrandbits(48))
            moved[index] = varied(nearby, leaf, generator) if index in self._moves else leaf
        return moved

    def _draw(self) -> dict[int, torch.Tensor]:
        leaves = self._fresh().leaves
        return {index: leaves[index] for index in self._redrawn}

    def _draw_noise(self, starts: Starts) -> dict[torch.dtype, torch.Tensor]:
        """Draw factors for one batch, of which an earlier batch's tell nothing."""
        noise = {}
        for dtype, device in self._floating.items():
            # A generator of its own: problems may change torch's, and some seeds are disclosed.
            generator = torch.Generator(device).manual_seed(self._secret.getrandbits(48))
            length = self._longest + policy.NOISE_SLACK + policy.INPUT_SHIFT * len(self._leaves)
            noise[dtype] = starts.factors((length,), generator, device).to(dtype)
        return noise

    def publish(self, memory: torch.Tensor, slots: list[Slot], recipe: InputRecipe) -> None:
        """Write a batch's inputs into a worker's shared memory.

        On a CPU they are made here, once for both workers of a turn: that takes far longer than a copy.
        """
        all_places = [stacked(memory, slot, 0, recipe.count) for slot in slots]
        if memory.device.type != "cpu":
            for index, places in enumerate(all_places):
                self._make(index, places, recipe)
            return
        if self._made is None or self._made[0] is not recipe:
            self._made = recipe, [places.new_empty(places.shape) for places in all_places]
            for index, own in enumerate(self._made[1]):
                self._make(index, own, recipe)
        for places, own in zip(all_places, self._made[1], strict=True):
            places.copy_(own)

    def _make(self, index: int, places: torch.Tensor, recipe: InputRecipe) -> None:
        """Write one input of a batch's calls, shape [calls, *shape]."""
        noisy = self._leaves[index].is_noisy and not self.whole_draws
        for part in _parts(recipe.count, places):
            sources = self._sources(index, recipe.bases[part], recipe.drawn[part])
            if noisy:
                self._multiply(
                    index, places[part], sources, self._factors(index, sources, part.start, recipe)
                )
            else:
                places[part].copy_(sources)
        for call, leaves in recipe.given.items():
            if index in leaves:
                places[call].copy_(leaves[index])
        if noisy and recipe.near is not None:
            place = places[recipe.near.call : recipe.near.call + 1]
            self._publish_near(index, place, recipe, recipe.near)

    def arguments(self, recipe: InputRecipe, call: int) -> Arguments:
        """Make the inputs of one call of a batch again."""
        leaves, lone = [], recipe.of_call(call)
        for index in range(len(self._leaves)):
            place = self._sources(index, lone.bases, lone.drawn).clone()
            self._make(index, place, lone)
            leaves.append(place[0])
        return self.trials[0].arguments.with_leaves(leaves)

    def _publish_near(self, index: int, place: torch.Tensor, recipe: InputRecipe, near: Near) -> None:
        """Write an earlier call's input, perturbed if it is precise enough, shape [1, *shape]."""
        earlier, only = near.earlier, slice(near.call, near.call + 1)
        sources = self._sources(index, recipe.bases[only], recipe.drawn[only])
        factors = [self._factors(index, sources, earlier.call, earlier.recipe)]
        if place.dtype in PRECISE_TYPES:
            factors.append(self._factors(index, sources, near.call, recipe))
        self._multiply(index, place, sources, *factors)

    def _multiply(
        self, index: int, places: torch.Tensor, sources: torch.Tensor, *factors: torch.Tensor
    ) -> None:
        """Write an input times its factors; second factors move the products a little."""
        is_hard, step = self._leaves[index].is_hard, NEARBY / self._starts.between[1]
        for place, source, first, *others in cached(places, sources, *factors):
            torch.mul(source, first, out=place)
            if is_hard:
                harden(place)
            for other in others:
                place.addcmul_(place, other, value=step)
                if is_hard:
                    harden(place)

    def _sources(self, index: int, bases: torch.Tensor, drawn: list[dict[int, torch.Tensor]]) -> torch.Tensor:
        """Draws that an input of some calls starts from, shape [calls, *shape]."""
        if index in self._redrawn:
            leaves = [leaves[index] for leaves in drawn]
            return torch.stack(leaves) if len(leaves) > 1 else leaves[0][None]
        stack = self._leaves[index].stack
        if stack is None:
            raise RuntimeError("inputs of varying shape have no stack")
        return _picked(stack, bases)

    def _factors(self, index: int, like: torch.Tensor, first: int, recipe: InputRecipe) -> torch.Tensor:
        """Factors of an input of calls from the `first` on, shape [calls, *shape]."""
        count, numel = len(like), like[0].numel()
        begin = recipe.offset + first * recipe.stride + index * policy.INPUT_SHIFT
        factors = recipe.noise[like.dtype].as_strided((count, numel), (recipe.stride, 1), begin)
        if numel < FEWEST_SCATTERED:
            factors = factors.abs().clamp(max=self._starts.between[1])
        factors = factors.view(like.shape)
        keep = self._leaves[index].keep
        return factors if keep is None else keep(factors)

    def withdraw(self, memory: torch.Tensor, slots: list[Slot], recipe: InputRecipe) -> None:
        """Replace a batch's inputs by other draws, as valid: a kernel left running could index anything."""
        others = (recipe.bases + 1) % self._draws
        for slot, leaf in zip(slots, self._leaves, strict=True):
            if leaf.stack is not None:
                places = stacked(memory, slot, 0, recipe.count)
                for part in _parts(recipe.count, places):
                    places[part].copy_(_picked(leaf.stack, others[part]))


def _comes_again(leaf: _Leaf) -> bool:
    """True if values or a zero pattern repeat across calls, so results could be cached."""
    stack = leaf.stack
    if stack is None or stack.numel() == 0:
        return False
    telling = (stack == 0) if leaf.is_noisy else stack
    if leaf.is_noisy and float(telling[0].float().mean()) < FEW_ZEROS:
        return False
    return not all(torch.equal(telling[0], other) for other in telling[1:])


def _parts(count: int, places: torch.Tensor) -> Iterator[slice]:
    """Calls whose inputs are made at once: many small ones, since each operation costs the host time."""
    step = max(1, policy.CHUNK_ELEMENTS[places.device.type] // max(1, places[0].numel()))
    return (slice(begin, min(begin + step, count)) for begin in range(0, count, step))


def _picked(stack: torch.Tensor, bases: torch.Tensor) -> torch.Tensor:
    """Pick draws, shape [calls, *shape]; of one call not a copy."""
    return stack[bases.to(stack.device)] if len(bases) > 1 else stack[int(bases[0])][None]


def _is_plain(stack: torch.Tensor) -> bool:
    """Return whether no element is zero, infinite or NaN."""
    return bool((stack.isfinite() & (stack != 0)).all())


def _alike(leaves: tuple[torch.Tensor, ...]) -> bool:
    return all(leaf.shape == leaves[0].shape and leaf.dtype == leaves[0].dtype for leaf in leaves)
