"""Smaller versions of a problem, for tools that slow a kernel down a thousandfold.

The problem's own `SHAPES` come first, then its integer constants scaled down by a power of two, odd ones
kept odd. A smaller version counts only if it still is the same problem: it runs, with as many inputs and
outputs of the same ranks and types.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from evaluator.errors import ProblemError
from evaluator.referee.lanes import Ground
from evaluator.referee.reference import Arguments, Output, Reference
from evaluator.referee.trials import TrialPool

_SCALABLE: Final = 64
"""Constants up to this are left alone: they are kernel sizes, heads and groups more often than extents."""
_FLOORS: Final = (128, 64, 32)
"""Extents are not scaled below: a tiled kernel needs several tiles for its tiles to race."""
_SHIFT: Final = 5
_PREFERRED: Final = ("small", "odd")


@dataclass(frozen=True, slots=True)
class Scene:
    """One version of a problem, ready to be called once."""

    name: str
    ground: Ground
    seed: int
    arguments: Arguments
    output: Output

    @property
    def elements(self) -> int:
        """Elements of all inputs and outputs."""
        return sum(leaf.numel() for leaf in (*self.arguments.leaves, *self.output.leaves))


def evaluated(ground: Ground, pool: TrialPool, name: str) -> Scene:
    """The version the candidate is judged on."""
    base = pool.bases[0]
    return Scene(name, ground, pool.draws[0].seed, base.arguments, base.expected.output)


def smaller(scene: Scene) -> Iterator[Scene]:
    """Versions with fewer elements, the most natural first."""
    seen = [scene.ground.overrides]
    for name, overrides in _variants(scene.ground.reference.constants()):
        if overrides and overrides not in seen:
            seen.append(overrides)
            made = _build(scene, name, overrides)
            if made is not None and made.elements < scene.elements and _same_problem(scene, made):
                yield made


def _variants(constants: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    shapes = constants.get("SHAPES")
    if isinstance(shapes, dict):
        order = [*_PREFERRED, *(name for name in shapes if name not in _PREFERRED)]
        for name in order:
            if isinstance(shapes.get(name), dict):
                yield name, dict(shapes[name])
    for floor in _FLOORS:
        yield f"scaled down to {floor}", scaled(constants, floor)


def scaled(constants: dict[str, Any], floor: int) -> dict[str, Any]:
    """Overrides that shrink the module's integer constants, and lists of integers, down to a floor."""
    overrides = {}
    for name, value in constants.items():
        small = _scaled(value, floor) if not name.startswith("_") else value
        if small != value:
            overrides[name] = small
    return overrides


def _scaled(value: Any, floor: int) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value > _SCALABLE:
        return min(value, max(floor, value >> _SHIFT) | (value & 1))
    if isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value):
        return type(value)(_scaled(item, floor) for item in value)
    return value


def _build(scene: Scene, name: str, overrides: dict[str, Any]) -> Scene | None:
    original, module = scene.ground.reference, sys.modules.get("problem")
    try:
        reference = Reference(
            original.problem, original.source, overrides, device=original.device, dtype="as_is"
        )
        reference.dtype = original.dtype
        with torch.random.fork_rng(devices=[original.device] if original.device.type == "cuda" else []):
            if original.backward is not None:
                reference.differentiate(scene.seed)
            model = reference.model(scene.seed)
            arguments = reference.inputs(scene.seed)
            output = reference.call(model, arguments)
    except ProblemError:
        return None
    finally:
        if module is not None:
            sys.modules["problem"] = module
    ground = replace(scene.ground, reference=reference, overrides=overrides)
    return Scene(name, ground, scene.seed, arguments, output)


def _same_problem(scene: Scene, other: Scene) -> bool:
    kept = scene.arguments.args == other.arguments.args and scene.arguments.kwargs == other.arguments.kwargs
    pairs = (
        (scene.arguments.leaves, other.arguments.leaves),
        (scene.output.leaves, other.output.leaves),
    )
    return kept and all(_alike(left, right) for left, right in pairs)


def _alike(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        one.dim() == two.dim() and one.dtype == two.dtype for one, two in zip(left, right, strict=True)
    )
