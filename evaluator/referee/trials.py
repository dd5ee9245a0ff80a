"""What a candidate is tried on: draws of the problem's inputs, and variants the reference is finite on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from evaluator.contestant.trees import same_structure
from evaluator.errors import ProblemError
from evaluator.referee.errorscale import Expected, expect, limit
from evaluator.referee.reference import Arguments, Reference
from evaluator.referee.structure import mirrored, symmetric, variable

_DRAWS = 2
FAR, NEAR = 0.5, 0.98
"""Smallest factors on inputs of timed calls; near is for references that stay finite on nothing else."""
_FINITE_SHARE = 0.9
_MOST_TERMS = {True: 1 << 14, False: 1 << 18}
"""Terms that allow for more error, with products and without: beyond, TF32 or a mere sample would do."""
_ASSERTING = re.compile(r"binary_cross_entropy\(|BCELoss\(|bernoulli|multinomial")
"""Operations that kill the CUDA context when an input leaves its domain."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One set of inputs with its right answer."""

    name: str
    arguments: Arguments
    expected: Expected
    limit: float


@dataclass(frozen=True, slots=True)
class Draw:
    """One weight draw: the disclosed seed, whether constant parameters were varied, and its trials."""

    seed: int
    vary: bool
    model: nn.Module
    trials: list[Trial]


@dataclass(frozen=True, slots=True)
class Starts:
    """What timed calls start from, and how far they go from there."""

    trials: list[Trial]
    smallest: float
    """Elements are multiplied by secret factors between this and one."""
    signed: bool
    """The factors have secret signs too."""


Variant = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _zero_mean(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random signs: terms cancel along every dimension, whatever rows and columns have in common."""
    signs = (
        2 * torch.randint(0, 2, values.shape, generator=generator, dtype=torch.int8, device=values.device) - 1
    )
    return values * signs


def _large(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    del generator
    return values * 16


def _tiny(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    del generator
    return values * 2.0**-12


def _sparse(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in sixteen stands out; the rest are small but not equal, or long sums would err in step."""
    kept = torch.rand(values.shape, generator=generator, device=values.device) < 1 / 16
    return torch.where(kept, values, values * 2.0**-8)


def _outliers(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _poke(values, generator, count=max(1, values.numel() // 1024), factor=8.0)


def _near_duplicate(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _poke(values, generator, count=3, factor=4.0)


def _shrunk(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    factors = torch.rand(values.shape, generator=generator, device=values.device, dtype=torch.float32)
    return values * factors.mul_(1 - FAR).add_(FAR).to(values.dtype)


def _poke(values: torch.Tensor, generator: torch.Generator, *, count: int, factor: float) -> torch.Tensor:
    """A copy with a few elements, at secret places, far out: no two alike, and zeros stay."""
    changed = values.clone().contiguous()
    flat, wanted = changed.view(-1), (min(count, changed.numel()),)
    places = torch.randint(flat.numel(), wanted, generator=generator, device=values.device)
    reach = float(values.abs().max()) or 1.0
    more = torch.rand(wanted, generator=generator, device=values.device)
    flat[places] = torch.where(flat[places] == 0, 0.0, (factor * reach * (1 + more)).to(values.dtype))
    return changed.as_strided(values.shape, values.stride()) if values.is_contiguous() else changed


VARIANTS: dict[str, Variant] = {
    "near_duplicate": _near_duplicate,
    "zero_mean": _zero_mean,
    "sparse": _sparse,
    "large": _large,
    "tiny": _tiny,
    "outliers": _outliers,
}


class TrialPool:
    """Secret trials of one problem, computed once and shared by its candidates."""

    def __init__(self, reference: Reference, *, math: str, secret: random.Random) -> None:
        self._reference = reference
        self._math = math
        self._secret = secret
        self.draws: list[Draw] = []
        self.skipped: list[str] = []
        """Variants this problem's reference does not stay finite on."""
        first = self._seed()
        model = reference.model(first)
        base = self.fresh()
        self.terms = terms_of(reference, model, base)
        self.bases = [self.trial("as_drawn", self.fresh(), model) for _ in range(_DRAWS)]
        self._first_draw(first, model)
        self._second_draw()

    def fresh(self) -> Arguments:
        """New inputs under a new secret seed."""
        return self._reference.inputs(self._seed())

    def trial(self, name: str, arguments: Arguments, model: nn.Module) -> Trial:
        """Compute the right answer for inputs."""
        bound = limit(self._math, zero_mean=name == "zero_mean", terms=self.terms)
        return Trial(name, arguments, expect(self._reference, model, arguments, self._math), bound)

    def starts(self) -> Starts:
        """Where timed calls start: where terms cancel, if they may, since the limit is tightest there.

        Inputs near known ones could be answered from them: by derivatives, or by narrower arithmetic for the
        small difference. Half the magnitude and the sign are secret, so none is near another.
        """
        first, other = self.bases
        model = self.draws[0].model
        signed = [trial for trial in self.draws[0].trials if trial.name == "zero_mean"]
        varied = self._varied(_zero_mean, other.arguments) if signed else None
        made = self._attempt("zero_mean", varied, model, other.expected) if varied is not None else None
        if made is not None:
            return Starts([*signed, made], FAR, signed=True)
        varied = self._varied(_shrunk, first.arguments)
        finite = varied is not None and self._attempt("shrunk", varied, model, first.expected) is not None
        return Starts(self.bases, FAR if finite else NEAR, signed=False)

    def notes(self) -> list[str]:
        """What could not be tried on this problem."""
        return [f"variants not applicable: {', '.join(self.skipped)}"] if self.skipped else []

    def _first_draw(self, seed: int, model: nn.Module) -> None:
        base = self.bases[0]
        trials = [base]
        for name, variant in VARIANTS.items():
            varied = self._varied(variant, base.arguments)
            made = self._attempt(name, varied, model, base.expected) if varied is not None else None
            if made is None:
                self.skipped.append(name)
            else:
                trials.append(made)
        self.draws.append(Draw(seed, False, model, trials))

    def _second_draw(self) -> None:
        seed = self._seed()
        model = self._reference.model(seed, vary=True)
        base = self.trial("other_weights", self.fresh(), model)
        trials = [base]
        if "zero_mean" not in self.skipped:
            varied = self._varied(_zero_mean, self.fresh())
            made = self._attempt("zero_mean", varied, model, base.expected) if varied is not None else None
            trials += [made] if made is not None else []
        self.draws.append(Draw(seed, True, model, trials))

    def _varied(self, variant: Variant, arguments: Arguments) -> Arguments | None:
        if not any(variable(leaf) for leaf in arguments.leaves):
            return None
        if self._reference.device.type == "cuda" and _ASSERTING.search(self._reference.source):
            return None
        generator = torch.Generator(self._reference.device).manual_seed(self._seed())
        return arguments.with_leaves([_vary(variant, leaf, generator) for leaf in arguments.leaves])

    def _attempt(self, name: str, varied: Arguments, model: nn.Module, base: Expected) -> Trial | None:
        try:
            made = self.trial(name, varied, model)
        except ProblemError:
            return None
        if not same_structure(made.expected.output.tree, base.output.tree):
            return None
        pairs = zip(made.expected.output.leaves, base.output.leaves, strict=True)
        return made if all(_as_finite(new, old) for new, old in pairs) else None

    def _seed(self) -> int:
        return self._secret.getrandbits(48)


def _vary(variant: Variant, leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not variable(leaf):
        return leaf
    varied = variant(leaf, generator)
    return mirrored(varied) if symmetric(leaf) else varied


def _as_finite(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether an output says as much: where NaN is right, nothing is to be computed."""
    finite, before = (int(leaf.isfinite().count_nonzero()) for leaf in (new, old))
    return new.shape == old.shape and finite >= _FINITE_SHARE * before


class _LongestSum(TorchFunctionMode):
    """Watches products go by and keeps the longest sum an element of one of them needs."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = 1

    # Any: whatever torch hands to a function mode.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
        if "conv" in name and len(tensors) > 1:
            self.terms = max(self.terms, tensors[1][0].numel())
        elif tensors and any(word in name for word in ("mm", "matmul", "linear", "einsum", "attention")):
            self.terms = max(self.terms, *(max(tensor.shape[-2:]) for tensor in tensors[:2]))
        return func(*args, **(kwargs or {}))


def terms_of(reference: Reference, model: nn.Module, arguments: Arguments) -> int:
    """About how many terms an output element sums: from products seen, or inputs per output."""
    with _LongestSum() as longest:
        output = reference.call(model, arguments)
    produced = max(1, min(leaf.numel() for leaf in output.leaves))
    consumed = max((leaf.numel() for leaf in arguments.leaves), default=1)
    floating = [leaf for leaf in arguments.leaves if leaf.is_floating_point() and leaf.dim()]
    widest = max((leaf.shape[-1] for leaf in floating), default=1)
    terms = int(max(longest.terms, consumed // produced, widest))
    # Without products sums are often of positive terms, as in a softmax, where adding one after another loses
    # small ones for good. Nothing there is computed in TF32, the closest thing to keep apart.
    products = longest.terms > 1
    return min(terms if products else 4 * terms, _MOST_TERMS[products])
