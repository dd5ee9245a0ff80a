"""Comparing outputs: expected values against what a contestant wrote, by group, in norm and by element."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from kernelwright.evaluator.ipc.gradients import OUTPUT
from kernelwright.evaluator.ipc.tensor_tree import leaf_paths
from kernelwright.evaluator.referee.correctness.tolerance import (
    PEAK_FACTOR,
    Discontinuities,
    Expected,
    all_finite,
    as_real,
    bound,
    grouped,
    rms,
)
from kernelwright.evaluator.schema.evaluation import Mismatch

_CHUNK_ELEMENTS = 1 << 24
_SHOWN = 5
_GRADIENT = re.compile(r"^\['(gradient of .*)'\]$")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one call's outputs compare."""

    error_ratio: float
    """Worst group error over its scale; infinite where NaN or infinity does not match."""
    mismatch: Mismatch | None


def compare(expected: Expected, actual: list[torch.Tensor], *, limit: float, trial: str) -> Comparison:
    """Compare every output tensor of one call; `limit` is a multiple of the error scale."""
    worst = 0.0
    paths = [_spoken(path) for path in leaf_paths(expected.output.tree)]
    for index, (path, returned) in enumerate(zip(paths, actual, strict=True)):
        got = as_real(returned)
        ratio, wrong = _leaf(expected, index, got, limit)
        worst = max(worst, ratio)
        if bool(wrong.any()):
            exact, scale = expected.exact[index], expected.scales[index]
            most = limit if scale is None else bound(limit, expected.precision(index))
            ratios = {"error_ratio": ratio, "limit_ratio": most, "trial": trial}
            return Comparison(worst, _describe(path, exact, got, wrong).model_copy(update=ratios))
    return Comparison(worst, None)


def agrees(expected: Expected, actual: list[torch.Tensor], *, limit: float) -> bool:
    """Whether `compare` finds no mismatch; nothing is described, which takes longer than to look."""
    return not any(
        bool(_leaf(expected, index, as_real(returned), limit)[1].any())
        for index, returned in enumerate(actual)
    )


def _leaf(expected: Expected, index: int, got: torch.Tensor, limit: float) -> tuple[float, torch.Tensor]:
    """Worst ratio of one output tensor, and a mask of the elements that are wrong."""
    exact, scale = expected.exact[index], expected.scales[index]
    if scale is None:
        wrong = (got != exact) & (got != expected.output.leaves[index])
        unsettled = expected.unsettled[index] if expected.unsettled else None
        if unsettled is not None:
            wrong &= ~unsettled
        return float("inf") if bool(wrong.any()) else 0.0, wrong
    jumps = expected.jumps[index] if expected.jumps else None
    if jumps is not None:
        exact = _nearest(exact, jumps, got)
    precision = expected.precision(index)
    return _floating(exact, scale, got, bound(limit, precision), eps=torch.finfo(precision).eps)


def _nearest(exact: torch.Tensor, jumps: Discontinuities, got: torch.Tensor) -> torch.Tensor:
    """The right values, and where there are several the one that was met best."""
    nearest, have = exact.flatten().clone(), got.flatten()
    for other in jumps.others:
        here, there = nearest[other.places], have[other.places].double()
        is_nearer = (there - other.values).abs() < (there - here).abs()
        nearest[other.places] = torch.where(is_nearer, other.values, here)
    return nearest.view(exact.shape)


def _spoken(path: str) -> str:
    """A place inside the answer, as people name it; beside gradients the call's own value has a name too."""
    return _GRADIENT.sub(r"\1", path).removeprefix(f"[{OUTPUT!r}]")


def _floating(
    exact: torch.Tensor, scale: torch.Tensor, got: torch.Tensor, limit: float, *, eps: float
) -> tuple[float, torch.Tensor]:
    """Worst ratio, and a mask of the elements that are wrong, in chunks of groups to bound memory."""
    rows, values = grouped(exact), grouped(got)
    step = max(1, _CHUNK_ELEMENTS // max(rows.shape[1], 1))
    worst, masks = 0.0, []
    for begin in range(0, rows.shape[0], step):
        part, have = rows[begin : begin + step], values[begin : begin + step].double()
        error = (have - part).abs()
        if all_finite(error):
            odd, size = torch.zeros_like(error, dtype=torch.bool), part.abs()
        else:
            finite = part.isfinite()
            odd = torch.where(finite, ~have.isfinite(), ~_same_nonfinite(part, have))
            error = torch.where(finite & have.isfinite(), error, 0.0)
            size = torch.where(finite, part, 0.0).abs()
        unit = scale[begin : begin + step].unsqueeze(1)
        ratios = rms(error) / unit.squeeze(1)
        # An element far above its group, such as the peak of a softmax row, carries an error of its own size.
        own = eps / 2 * size
        # Written as "not within" so that a NaN in the arithmetic counts as wrong.
        beyond = ~(error <= limit * (PEAK_FACTOR * unit + own))
        loud = ~(ratios <= limit)
        wrong = odd | beyond | (loud.unsqueeze(1) & (error > limit * unit * 0.5))
        wrong |= loud.unsqueeze(1) & ~wrong.any(1, keepdim=True)
        worst = max(worst, float(ratios.max()), float("inf") if bool(odd.any()) else 0.0)
        masks.append(wrong)
    mask = torch.cat(masks) if masks else torch.zeros_like(rows, dtype=torch.bool)
    return worst, mask.reshape(exact.shape)


def _same_nonfinite(expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    return (expected.isnan() & got.isnan()) | (expected == got)


def _describe(path: str, exact: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor) -> Mismatch:
    """Where and how far; trial and ratios are the caller's to fill in."""
    first = _first_places(wrong)
    shape = tuple(exact.shape)
    indices = [_unravelled(position, shape) for position in first.tolist()]
    return Mismatch(
        output=path,
        trial="",
        wrong=int(wrong.count_nonzero()),
        total=exact.numel(),
        first_indices=tuple(indices),
        expected=tuple(float(v) for v in exact.flatten()[first].cpu()),
        actual=tuple(float(v) for v in got.flatten()[first].cpu()),
        max_abs_error=_largest_error(exact, got, wrong),
        error_ratio=float("nan"),
        limit_ratio=float("nan"),
        pattern=pattern(wrong, exact, got),
    )


def _unravelled(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a flat position; torch's own function imports its compiler, which takes seconds."""
    index = []
    for size in reversed(shape):
        position, place = divmod(position, size)
        index.append(place)
    return tuple(reversed(index))


def _first_places(wrong: torch.Tensor) -> torch.Tensor:
    """Flat positions of the first wrong elements; a part at a time, as a GPU may refuse to search more."""
    found = wrong.new_empty(0, dtype=torch.int64)
    for number, part in enumerate(_parts(wrong)):
        places = part.nonzero().flatten() + number * _CHUNK_ELEMENTS
        found = torch.cat([found, places[: _SHOWN - len(found)]])
        if len(found) == _SHOWN:
            break
    return found


def _largest_error(exact: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor) -> float:
    """Of the wrong elements whose error is finite; infinite where none is."""
    worst = -1.0
    for right, have, mask in zip(_parts(exact), _parts(got), _parts(wrong), strict=True):
        error = (have.double() - right.double()).abs()
        counted = error[mask & error.isfinite()]
        worst = max(worst, float(counted.max())) if counted.numel() else worst
    return worst if worst >= 0 else float("inf")


def _parts(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Flat pieces that bound what is computed from them."""
    return torch.split(values.flatten(), _CHUNK_ELEMENTS)


def pattern(wrong: torch.Tensor, exact: torch.Tensor, got: torch.Tensor) -> str:
    """What the wrong places look like, for people and for feedback."""
    if all(bool((part.double() == 0).all()) for part in _parts(got)):
        return "the output is all zeros"
    if bool(got.isnan().all()) if got.is_floating_point() else False:
        return "nothing was written: every element still holds the poison"
    share = int(wrong.count_nonzero()) / max(wrong.numel(), 1)
    if _transposed(exact, got):
        return "the output is transposed"
    for dimension in range(exact.dim() - 1, -1, -1):
        other = [axis for axis in range(exact.dim()) if axis != dimension]
        lines = (wrong.any(dim=tuple(other)) if other else wrong).nonzero().flatten()
        size = exact.shape[dimension]
        if 0 < lines.numel() < size and int(lines[-1] - lines[0]) + 1 == lines.numel():
            return f"only indices {int(lines[0])}..{int(lines[-1])} of dimension {dimension} (size {size})"
    if share > 0.99:
        return "everything is off"
    return f"{share:.2%} of the elements, scattered"


def _transposed(exact: torch.Tensor, got: torch.Tensor) -> bool:
    square = exact.dim() > 1 and exact.shape[-1] == exact.shape[-2]
    return square and torch.allclose(got.double(), exact.double().transpose(-1, -2), rtol=1e-3, atol=1e-5)
