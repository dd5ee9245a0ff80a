"""Latency of a call by itself: warm inputs, no baseline, no candidate."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.reference import policy
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference
from kernelwright.evaluator.schema.problem_report import ProblemFlaw, Severity, flaw_of


@dataclass(frozen=True, slots=True)
class CallLatency:
    """Times of one model and of the smallest operation there is."""

    median_ms: float
    least_ms: float
    launch_ms: float

    def remark(self, operations: int) -> ProblemFlaw | None:
        """A flaw where a call is too short to be timed, or where launching dominates it."""
        bar_ms = max(policy.LEAST_CALL_MS, policy.LAUNCHES * self.launch_ms)
        if self.least_ms < bar_ms:
            text = (
                f"a call takes {self.least_ms * 1e3:.1f} µs; below {bar_ms * 1e3:.0f} µs launching dominates"
            )
            return flaw_of("too_small", text)
        launching_ms = operations * self.launch_ms
        if launching_ms > self.least_ms / 2:
            text = f"launching {operations} operations takes {launching_ms:.3g} of {self.least_ms:.3g} ms"
            return ProblemFlaw(name="launch_bound", severity=Severity.NOTE, detail=text)
        return None


def timed_ms(device: Device, call: Callable[[], object], calls: int = 1) -> float:
    """Milliseconds of so many calls in a row, on an idle device."""
    timer = device.timer()
    device.synchronize()
    timer.start()
    for _ in range(calls):
        call()
    timer.stop()
    device.synchronize()
    return timer.elapsed_ms()


def measure_latency(device: Device, model: nn.Module, arguments: Arguments) -> CallLatency:
    args, kwargs = arguments.copied().values()
    cell = torch.zeros(1, device=device.torch_device)
    with torch.no_grad():
        times = _times_ms(device, lambda: model(*args, **kwargs))
        launches = _times_ms(device, lambda: cell.add_(1))
    return CallLatency(statistics.median(times), min(times), min(launches))


@contextlib.contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Set torch's thread count; restore it on exit."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def fewer_threads(reference: Reference) -> Iterator[None]:
    """One thread for a while, where the reference's calls take no longer with it.

    Threads that wait for each other on a busy machine make short operations many times slower.
    """
    threads = torch.get_num_threads()
    with with_threads(threads):
        if reference.device.type == "cpu" and threads > 1:
            torch.set_num_threads(_best_threads(reference, threads))
        yield


def _best_threads(reference: Reference, threads: int) -> int:
    model, arguments = reference.model(0), reference.inputs(0)

    def taken_s(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            reference.call(model, arguments)
        return time.perf_counter() - began

    if taken_s(1) > policy.LONG_CALL_S:
        return threads
    together_s = taken_s(policy.THREAD_TRIALS)
    torch.set_num_threads(1)
    return 1 if taken_s(policy.THREAD_TRIALS) <= together_s else threads


def _times_ms(device: Device, call: Callable[[], object]) -> list[float]:
    times: list[float] = []
    size = 1
    until = time.perf_counter() + policy.TIMING_S
    while not times or (time.perf_counter() < until and len(times) < policy.MAX_BATCHES):
        took_ms = timed_ms(device, call, size)
        if took_ms < policy.BATCH_MS and size < policy.MAX_BATCHES:
            size *= 4
        else:
            times.append(took_ms / size)
    return times
