"""Rebuilds with torch's full headers what an evaluation built with the lean ones."""

from __future__ import annotations

from contextlib import closing

from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.lean_headers.suspicion import first_error
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import gpu_of
from kernelwright.evaluator.schema.evaluation import Evaluation
from kernelwright.evaluator.schema.record import Record


class FullHeaderBuild(Record):
    """The result of rebuilding everything."""

    ok: bool | None
    """None where it could not be tried."""
    why: str = ""
    """The compiler's first error, or why it was not tried."""


def rebuild(builder: Builder, evaluation: Evaluation) -> FullHeaderBuild:
    """Rebuild the lean builds of an evaluation with torch's full headers; cached by content.

    Raises:
        MachineError: compiler, sandbox or disk failed.
    """
    device = evaluation.environment.device if evaluation.environment else "cpu"
    gpu = gpu_of(device)
    lean = [build for build in evaluation.builds if build.ok and build.tier == "lean"]
    if lean and device != "cpu" and gpu is None:
        return FullHeaderBuild(ok=None, why=f"there is no {device} here to build for")
    with closing(DeviceLock("cpu")) as lock:
        for build in lean:
            if device == "cpu":
                lock.share()  # no kernel is timed beside a compiler
            again = builder.rebuild_with_full_headers(
                build.key,
                architecture=gpu.architecture if gpu else None,
                timeout_s=evaluation.config.limits.build_s,
            )
            if again is None:
                return FullHeaderBuild(ok=None, why=f"the build cache no longer holds {build.name}")
            if not again.ok:
                return FullHeaderBuild(ok=False, why=f"{build.name}: {first_error(again.log)}")
    return FullHeaderBuild(ok=True)
