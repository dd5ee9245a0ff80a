"""A block with plain references beside the same block with a package's models, for `package_models.py`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from types import ModuleType
from typing import Any, Final

import torch
from support.model_blocks import Block

MOST_ERROR: Final = 2.0
"""Error of a block with kernels, over the plain block's: both are compared with float64."""
EPSILONS: Final = 4.0
"""Further error that is allowed, in units of float32's epsilon and of the largest output."""
RESAMPLES: Final = 1000
WARM_CALLS: Final = 3


class Comparison:
    """A block with plain references, compiled, and with the package's models, on the same inputs."""

    def __init__(self, block: Block, package: ModuleType, names: Mapping[str, str], device: str) -> None:
        self.block, self.names, self.device = block, names, device
        self.sizes = block.sizes if device == "cuda" else block.small
        self._plain = {problem: package.reference(names[problem]).Model for problem in block.made.parts}
        self._models = {problem: package.drop_in(names[problem], trust=True) for problem in block.made.parts}
        self.plain = block.build(self._plain.__getitem__, self.sizes).to(device)
        self.replaced = block.build(self._models.__getitem__, self.sizes).to(device)
        self.replaced.load_state_dict(self.plain.state_dict())
        torch.manual_seed(3)
        self.inputs = [each.to(device) for each in block.inputs(self.sizes)]
        self.compiled: Callable[..., Any] | None = None

    def compile(self) -> list[str]:
        """Compile the plain block by calling it once, which takes long; return what went wrong."""
        compiled = torch.compile(self.plain)
        try:
            compiled(*self.inputs)
        except Exception as error:  # noqa: BLE001 - the baseline's compiler may raise anything
            return [f"{self.block.name} was not compiled: {type(error).__name__} {str(error)[:300]}"]
        self.compiled = compiled
        return []

    def errors(self) -> dict[str, Any]:
        """Errors of all forms against the plain block in float64, as root mean square and as largest."""
        exact = self.block.build(self._plain.__getitem__, self.sizes)
        exact.load_state_dict(self.plain.state_dict())
        truth = exact.to(self.device, torch.float64)(*(each.double() for each in self.inputs))
        del exact
        largest = float(truth.abs().max())
        outputs = {"plain": self.plain(*self.inputs), "replaced": self.replaced(*self.inputs)}
        if self.compiled is not None:
            outputs["compiled"] = self.compiled(*self.inputs)
        found: dict[str, Any] = {"largest output": largest}
        for name, output in outputs.items():
            off = output.double() - truth
            found[name] = {"rms": float(off.square().mean().sqrt()), "max": float(off.abs().max())}
        apart = (outputs["replaced"].double() - outputs["plain"].double()).abs()
        found["replaced from plain"] = {"rms": float(apart.square().mean().sqrt()), "max": float(apart.max())}
        floor = EPSILONS * torch.finfo(torch.float32).eps * largest
        found["equal"] = all(
            found["replaced"][kind] <= MOST_ERROR * found["plain"][kind] + floor for kind in ("rms", "max")
        )
        return found

    def dispatched(self) -> dict[str, dict[str, Any]]:
        """Calls by problem: the kernel's, and the reference's with their reasons."""
        return {
            problem: {"kernel": self.names[problem], "calls": dict(part.calls)}
            for problem, made in self._models.items()
            for part in self.replaced.children()
            if type(part) is made
        }

    def troubles(self, errors: dict[str, Any]) -> list[str]:
        """Say what is wrong: the outputs, or on a GPU a call that no kernel answered."""
        found = [] if errors["equal"] else [f"{self.block.name}: outputs differ: {errors}"]
        for problem, each in self.dispatched().items():
            if self.device == "cuda" and set(each["calls"]) != {"kernel"}:
                found.append(f"{self.block.name}: {problem} was not answered by its kernel: {each['calls']}")
        return found

    def times(self, rounds: int, calls: int) -> dict[str, Any]:
        """Milliseconds per call and gains, by turns; intervals are of the median of rounds, resampled."""
        forms = {"plain": self.plain, "replaced": self.replaced}
        if self.compiled is not None:
            forms["compiled"] = self.compiled
        taken: dict[str, list[float]] = {name: [] for name in forms}
        order = list(forms)
        for number in range(-1, rounds):
            for name in order:
                took = _timed(forms[name], self.inputs, calls if number >= 0 else WARM_CALLS, self.device)
                if number >= 0:
                    taken[name].append(took)
            order = order[1:] + order[:1]
        found: dict[str, Any] = {"ms": {name: round(median(each), 4) for name, each in taken.items()}}
        for name in forms.keys() - {"replaced"}:
            ratios = [a / b for a, b in zip(taken[name], taken["replaced"], strict=True)]
            found[f"gain over {name}"] = _interval(ratios)
        return found


def _timed(model: Callable[..., Any], inputs: list[torch.Tensor], calls: int, device: str) -> float:
    if device == "cpu":
        began = time.perf_counter()
        for _ in range(calls):
            model(*inputs)
        return (time.perf_counter() - began) * 1e3 / calls
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        model(*inputs)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def _interval(ratios: list[float]) -> dict[str, float]:
    drawn = random.Random(5)
    medians = sorted(median(drawn.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    return {"median": round(median(ratios), 4), "low": round(low, 4), "high": round(high, 4)}
