"""A plain serial evaluator: `load_inline`, allclose, a loop under a timer; one candidate.

Called by `throughput.py` in a process of its own with a folder that holds `problem.py`, `candidate.py` and
`job.json`; prints a line for each stage it enters and, last, its verdict as JSON. Nothing here is protected.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

TRIALS, WARM, TIMED = 5, 5, 30
LOOSE = 1e-2


def load(path: Path, overrides: dict[str, Any]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    vars(module).update(overrides)
    return module


def construct(module: ModuleType, name: str, arguments: list[Any], device: str) -> torch.nn.Module:
    torch.manual_seed(42)
    model: torch.nn.Module = getattr(module, name)(*arguments)
    return model.to(device)


def median_ms(model: torch.nn.Module, inputs: list[Any], device: str) -> float:
    """Median of single calls on the same inputs, as most evaluators in the field time them."""
    times = []
    for number in range(WARM + TIMED):
        if device == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            model(*inputs)
            events[1].record()
            torch.cuda.synchronize()
            took_ms = events[0].elapsed_time(events[1])
        else:
            started = time.perf_counter()
            model(*inputs)
            took_ms = (time.perf_counter() - started) * 1e3
        if number >= WARM:
            times.append(took_ms)
    return statistics.median(times)


def judge(folder: Path) -> dict[str, Any]:
    job = json.loads((folder / "job.json").read_text())
    device = job["device"]
    say("build")
    try:
        candidate = load(folder / "candidate.py", {})
    except RuntimeError as error:
        failed = "COMPILE_ERROR" if "building extension" in str(error) else "RUNTIME_ERROR"
        return {"status": failed, "detail": str(error)[-200:]}
    say("run")
    reference = load(folder / "problem.py", job["overrides"])
    arguments = reference.get_init_inputs()
    expected, actual = (
        construct(module, name, arguments, device)
        for module, name in ((reference, "Model"), (candidate, "ModelNew"))
    )
    with torch.no_grad():
        for trial in range(TRIALS):
            torch.manual_seed(trial)
            inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in reference.get_inputs()]
            right = expected(*inputs)
            try:
                answer = actual(*inputs)
            except Exception as error:  # noqa: BLE001 - the candidate may raise anything
                return {"status": "RUNTIME_ERROR", "detail": str(error)[-200:]}
            if not torch.allclose(answer, right, rtol=LOOSE, atol=LOOSE):
                return {"status": "WRONG_VALUES", "detail": ""}
        ours, theirs = (median_ms(model, inputs, device) for model in (actual, expected))
    return {"status": "PASSED", "speedup": theirs / ours, "detail": ""}


def say(stage: str) -> None:
    print(stage, flush=True)


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]))))
