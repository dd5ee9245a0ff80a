"""One call observed: by torch's profiler, which names what ran, or by a tool around us. Mere claims."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from kernelwright.evaluator.contestant.calls import CallLayout
from kernelwright.evaluator.contestant.policy import MOST_NAME
from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.ipc.model_state import ModelState
from kernelwright.evaluator.ipc.policy import MAX_EVENTS

_CALL = "kernelwright call"


def profile(model: Any, layout: CallLayout, device: Device) -> list[tuple[str, str, float]]:
    """Kinds (`kernel`, `operator`, `call`), names and milliseconds, longest first.

    On a GPU the kernels' own times; on a CPU each operator's time without those it calls, and what is left of
    the whole call. The newer `torch.profiler.profile` imports the compiler, which takes seconds.
    """
    ((args, kwargs),) = layout.prepared(0, 1)
    on_gpu = device.torch_device.type == "cuda"
    before = ModelState(model)
    with torch.no_grad():
        layout.call(model, args, kwargs)
        device.synchronize()
        with torch.autograd.profiler.profile(
            use_device="cuda" if on_gpu else None, use_kineto=True, use_cpu=not on_gpu
        ) as trace:
            with torch.autograd.profiler.record_function(_CALL):
                layout.call(model, args, kwargs)
            device.synchronize()
    before.restore()
    return _kernels(trace) if on_gpu else _operators(trace)


def count(model: Any, layout: CallLayout, device: Device) -> None:
    """One call between profiler start and stop, for a tool that reads counters, and one before to warm up."""
    ((args, kwargs),) = layout.prepared(0, 1)
    with torch.no_grad():
        layout.call(model, args, kwargs)
        device.synchronize()
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]  # torch has no types here
        layout.call(model, args, kwargs)
        device.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def _kernels(trace: Any) -> list[tuple[str, str, float]]:
    spent: Counter[tuple[str, str]] = Counter()
    for event in trace.kineto_results.events():
        if event.device_type().name == "CUDA" and event.name() != _CALL:
            spent["kernel", event.name()] += event.duration_ns()
    return _longest({key: value / 1e6 for key, value in spent.items()})


def _operators(trace: Any) -> list[tuple[str, str, float]]:
    spent: Counter[tuple[str, str]] = Counter()
    for event in trace.function_events:
        kind = "call" if event.name == _CALL else "operator"
        spent[kind, event.name] += event.self_cpu_time_total
    return _longest({key: value / 1e3 for key, value in spent.items()})


def _longest(spent: dict[tuple[str, str], float]) -> list[tuple[str, str, float]]:
    ordered = sorted(spent.items(), key=lambda item: -item[1])[:MAX_EVENTS]
    return [(kind, name[:MOST_NAME], max(0.0, milliseconds)) for (kind, name), milliseconds in ordered]
