"""Draws other random weights than a problem's own sizes give, alike in referee and contestant.

Work that only the size of a problem's weights makes unnecessary is work all the same: a term that vanishes
beside others, the last steps of an iteration. While `spread_draws` is active, numbers that torch draws lie
farther from their mean, whoever asks for them and however: `uniform_(-b, b)` and `rand() * 2 * b - b` agree,
and so does all that a constructor derives or packs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

_NORMAL: Final = frozenset({"aten::randn", "aten::randn_like"})
_UNIT: Final = frozenset({"aten::rand", "aten::rand_like"})
_MEANS: Final = frozenset({"aten::normal_", "aten::normal"})


@dataclass(frozen=True, slots=True)
class Spread:
    """Factor on the distance of drawn numbers from their mean, and the draws that keep theirs."""

    factor: float = 1.0
    """Times their own distance."""
    kept: tuple[tuple[int, ...], ...] = ()
    """Shapes of draws that stay as they are."""

    def as_message(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    @classmethod
    def from_message(cls, fields: dict[str, Any] | None) -> Spread:
        """Read what `as_message` wrote."""
        return UNCHANGED if fields is None else cls(fields["factor"], tuple(map(tuple, fields["kept"])))


UNCHANGED: Final = Spread()


class _Spreading(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no type for it
    """Moves drawn numbers away from their mean, below all names that the draw may be called by."""

    def __init__(self, wanted: Spread) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._wanted = wanted
        self.is_paused = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else the first use imports all of torch's compiler, for seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,  # an operator's overload, for which torch has no public type
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        drawn = func(*args, **(kwargs or {}))
        mean = None if self.is_paused else _mean(func, args, kwargs or {})
        if mean is not None:
            self.move(drawn, mean)
        return drawn

    def move(self, drawn: torch.Tensor, mean: float | torch.Tensor) -> None:
        """Move numbers away from their mean."""
        if tuple(drawn.shape) in self._wanted.kept:
            return
        with torch.no_grad():
            if isinstance(mean, torch.Tensor) or mean:
                drawn.sub_(mean).mul_(self._wanted.factor).add_(mean)
            else:
                drawn.mul_(self._wanted.factor)


def _mean(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | torch.Tensor | None:
    """The mean of what an operator draws; None for all others."""
    name = func._schema.name
    if name in _NORMAL:
        return 0.0
    if name in _UNIT:
        return 0.5
    if name not in _MEANS and name != "aten::uniform_":
        return None
    named = {one.name: one.default_value for one in func._schema.arguments}
    named |= {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)}
    named |= kwargs
    if name in _MEANS:
        return named["mean"]  # type: ignore[no-any-return]  # a number or a tensor, as the operator takes it
    return (float(named["from"]) + float(named["to"])) / 2


@contextlib.contextmanager
def spread_draws(wanted: Spread) -> Iterator[None]:
    """While active, torch's generators draw numbers that lie `wanted.factor` times as far from their mean."""
    if wanted.factor == 1:
        yield
        return
    mode = _Spreading(wanted)
    # What torch's compiler meets under a dispatch mode it never compiles later.
    compiles = "torch._dynamo" in sys.modules
    eagerly = torch.compiler.set_stance("force_eager") if compiles else contextlib.nullcontext()
    original = nn.init._no_grad_trunc_normal_

    def truncated(tensor: torch.Tensor, mean: float, *args: Any, **kwargs: Any) -> torch.Tensor:
        # It draws again what lies beyond its bounds, so it is moved afterwards.
        mode.is_paused = True
        try:
            original(tensor, mean, *args, **kwargs)
        finally:
            mode.is_paused = False
        mode.move(tensor, mean)
        return tensor

    try:
        nn.init._no_grad_trunc_normal_ = truncated
        with eagerly, mode:
            yield
    finally:
        nn.init._no_grad_trunc_normal_ = original
