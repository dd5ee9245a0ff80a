"""Problems of a given duration: one operation on inputs that are sized by trying them on this device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from kernelwright.evaluator import Problem, problem_from_source

KINDS: Final = ("elementwise", "matmul")
_MOST_ELEMENTS: Final = {"cpu": 1 << 20, "cuda": 1 << 24}
_MOST_CALLS: Final = {"cpu": 4096, "cuda": 256}
_SLEEP_CYCLES: Final = 20_000_000
_TRY_S: Final = 0.15
_FEWEST_ROWS: Final = 3
_STEPS: Final = 12

_ELEMENTWISE: Final = '''"""Some passes of a logistic function."""
import torch
from torch import nn

SIZE = {size}
PASSES = {passes}


class Model(nn.Module):
    def forward(self, x):
        for _ in range(PASSES):
            x = torch.sigmoid(x)
        return x


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return []
'''
_MATMUL: Final = '''"""A square product."""
import torch
from torch import nn

SIZE = {size}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
'''


@dataclass(frozen=True, slots=True)
class Sized:
    """One problem and how long its reference takes here, warm."""

    kind: str
    wanted_ms: float
    found_ms: float
    problem: Problem

    @property
    def label(self) -> str:
        """Such as `matmul 100 µs`."""
        return f"{self.kind} {length(self.wanted_ms)}"


def length(milliseconds: float) -> str:
    """`100 µs`, `10 ms`."""
    return f"{milliseconds:g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:g} µs"


def sized(kind: str, wanted_ms: float, device: str) -> Sized:
    """Choose a size whose call takes about `wanted_ms` on this device."""
    if kind == "matmul":
        size, found_ms = _search(lambda n: _matmul(n, device), wanted_ms, start=16, power=2.5)
        source = _MATMUL.format(size=size)
    else:
        size, found_ms = _search(lambda n: _sigmoid(n, device), wanted_ms, start=1024, power=1.0)
        most = _MOST_ELEMENTS[device]
        passes = max(1, round(wanted_ms / _sigmoid(most, device))) if size > most else 1
        size = min(size, most)
        found_ms = _sigmoid(size, device) * passes
        source = _ELEMENTWISE.format(size=size, passes=passes)
    name = length(wanted_ms).replace(" ", "").replace("µ", "u")
    return Sized(kind, wanted_ms, found_ms, problem_from_source(source, f"sized_{kind}_{name}"))


def _search(
    measure: Callable[[int], float], wanted_ms: float, *, start: int, power: float
) -> tuple[int, float]:
    """Grow or shrink a size until its time is close; `power` is how time grows with it."""
    size, found_ms = start, measure(start)
    for _ in range(_STEPS):
        if 0.85 < found_ms / wanted_ms < 1.15 or (found_ms > wanted_ms and size <= start):
            break
        step = min(max((wanted_ms / found_ms) ** (1 / power), 0.25), 8.0)
        size = max(start, math.ceil(size * step / 16) * 16)
        found_ms = measure(size)
    return size, found_ms


def _matmul(size: int, device: str) -> float:
    a, b = torch.randn(2, size, size, device=device)
    return _call_ms(lambda: a @ b, device)


def _sigmoid(size: int, device: str) -> float:
    x = torch.randn(min(size, _MOST_ELEMENTS[device]), device=device)
    return _call_ms(lambda: torch.sigmoid(x), device) * size / x.numel()


def _call_ms(call: Callable[[], object], device: str) -> float:
    """Milliseconds of a call in a row of them, best of several rows."""
    row_ms = _queued_row_ms if device == "cuda" else _row_ms
    best, rows, calls, until = float("inf"), 0, 1, time.perf_counter() + _TRY_S
    while time.perf_counter() < until or rows < _FEWEST_ROWS:
        took_ms = row_ms(call, calls)
        if took_ms < 10 and calls < _MOST_CALLS[device]:
            calls *= 4
        else:
            best, rows = min(best, took_ms / calls), rows + 1
    return best


def _row_ms(call: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) * 1e3


def _queued_row_ms(call: Callable[[], object], calls: int) -> float:
    """On a GPU that sleeps until all are queued: what the host takes to launch is not asked for."""
    torch.cuda.synchronize()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_SLEEP_CYCLES)
    start.record()
    for _ in range(calls):
        call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)
