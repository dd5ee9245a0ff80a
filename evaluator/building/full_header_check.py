"""Whether a kernel also builds outside: what was built with lean headers, built with torch's own."""

from __future__ import annotations

from contextlib import closing

from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.lean_headers.error_blame import first_error
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import gpu_of
from kernelwright.evaluator.schema.evaluation import Evaluation
from kernelwright.evaluator.schema.record import Record


class FullHeaderBuild(Record):
    """What came of building everything once more."""

    ok: bool | None
    """None when that could not be tried."""
    why: str = ""
    """The compiler's first error, or why it was not tried."""


def build_plainly(builder: Builder, evaluation: Evaluation) -> FullHeaderBuild:
    """Build with torch's own headers what an evaluation built with others; remembered by content.

    Raises:
        MachineError: compiler, sandbox or disk failed.
    """
    device = evaluation.environment.device if evaluation.environment else "cpu"
    gpu = gpu_of(device)
    lean = [build for build in evaluation.builds if build.ok and build.tier == "lean"]
    if lean and device != "cpu" and gpu is None:
        return FullHeaderBuild(ok=None, why=f"there is no {device} here to build for")
    with closing(DeviceLock("cpu")) as lease:
        for build in lean:
            if device == "cpu":
                lease.share()  # nobody's times are taken beside a compiler
            again = builder.build_plainly(
                build.key,
                architecture=gpu.architecture if gpu else None,
                timeout_s=evaluation.config.limits.build_s,
            )
            if again is None:
                return FullHeaderBuild(ok=None, why=f"the build cache no longer holds {build.name}")
            if not again.ok:
                return FullHeaderBuild(ok=False, why=f"{build.name}: {first_error(again.log)}")
    return FullHeaderBuild(ok=True)
