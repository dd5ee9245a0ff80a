"""Inspects problems: a referee of its own, bounded in time and memory, each problem in a child process."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from kernelwright.evaluator.driver import policy
from kernelwright.evaluator.driver.measurement_cache import FactMemory, MeasurementCache
from kernelwright.evaluator.driver.processes.referee_process import RefereeProcess, Served
from kernelwright.evaluator.driver.referee_client import EvaluatorResources
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import cpu_name, threads
from kernelwright.evaluator.ipc import referee_messages as wire
from kernelwright.evaluator.ipc.channel import ChannelClosed, ChannelGarbled, ChannelTimeout, JsonObject
from kernelwright.evaluator.ipc.driver_requests import Begin, Recall, Remember
from kernelwright.evaluator.ipc.messages import Dispatcher
from kernelwright.evaluator.sandbox import ExitReport, signal_name
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.problem import Problem
from kernelwright.evaluator.schema.problem_report import ProblemReport, flaw_of
from kernelwright.evaluator.schema.problem_signature import ProblemSignature
from kernelwright.evaluator.schema.source_version import distribution_version

_DESCRIBED: Final = ("inputs", "outputs", "parameters", "bytes_moved", "flops")
_MEASURED: Final = ("remarks", "guessable", "measured_ms", "estimated_ms", "memory_bytes", "flops")


class ProblemInspector:
    """A referee that inspects one problem after another, each in a child of its own."""

    def __init__(
        self, resources: EvaluatorResources, device: str, *, wanted_threads: int | None = None
    ) -> None:
        """Start a process on a device; `wanted_threads` None means the cores this process may use."""
        self._store = resources.measurements
        self._device = device
        self._threads = threads(wanted_threads)
        self._begun = False
        self.usable = True
        """It can inspect another problem; one that outlived its time or memory cannot."""
        self._lock = DeviceLock(device)
        memory = FactMemory(resources.measurements, device, self._threads)
        self._dispatcher: Dispatcher[Served] = Dispatcher(
            {Recall: memory.recall, Remember: memory.remember, Begin: self._begin}
        )
        bounds = resources.image.referee_policy(device=device, threads=self._threads)
        spare = int(policy.INSPECTION_MEMORY_SHARE * _available_bytes())
        bounds = dataclasses.replace(bounds, memory_bytes=min(bounds.memory_bytes, spare))
        self._process = RefereeProcess(resources.launcher, resources.image, bounds)

    def vet(self, problem: Problem, config: EvaluationConfig) -> ProblemReport:
        """Look for flaws, which mark later scores of the problem; raises as `Evaluator.inspect` does."""
        request = wire.InspectProblem(
            problem=problem.id,
            source=problem.source,
            overrides=problem.overrides(config.shapes),
            config=config.model_dump(mode="json"),
            device="cpu" if self._device == "cpu" else "cuda",
            threads=self._threads,
        )
        began = time.monotonic()
        self._lock.share()
        try:
            found = self._ask(request, began + min(policy.INSPECTION_S, config.limits.total_s))
        finally:
            self._lock.release()
        report = ProblemReport(
            problem=problem.id,
            problem_sha=problem.sha,
            shapes=config.shapes,
            dtype=config.dtype,
            math=config.math,
            device=self._device,
            device_name=str(found.get("device_name") or cpu_name()),
            seconds=round(time.monotonic() - began, 3),
            evaluator_version=distribution_version(),
            vetted_at=datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: found[name] for name in _MEASURED if found.get(name) is not None},
        )
        key = _key(problem, config, self._device)
        self._store.remember(key, {"vetting": report.model_dump(mode="json")})
        return report

    def describe(self, problem: Problem, config: EvaluationConfig) -> ProblemSignature:
        """Find inputs and outputs without running the problem, as far as it shows them; raises likewise."""
        request = wire.DescribeProblem(
            problem=problem.id,
            source=problem.source,
            overrides=problem.overrides(config.shapes),
            dtype=config.dtype.value,
            threads=1,
        )
        found = self._ask(request, time.monotonic() + min(policy.DESCRIPTION_S, config.limits.total_s))
        return ProblemSignature(
            problem=problem.id,
            problem_sha=problem.sha,
            shapes=config.shapes,
            dtype=config.dtype,
            **{name: found[name] for name in _DESCRIBED if found.get(name) is not None},
        )

    def close(self) -> None:
        """End the process."""
        self.usable = False
        self._process.close()
        self._lock.close()

    def _begin(self, request: Begin) -> None:
        self._begun = True

    def _ask(self, request: wire.InspectProblem | wire.DescribeProblem, deadline: float) -> JsonObject:
        """Have the child look at one problem; how the child or the process ended is an answer too."""
        self._begun = self.usable = False
        try:
            found = self._converse(request, deadline)
        except ChannelTimeout:
            return _one_flaw("too_slow", "not vetted in time")
        except ChannelClosed:
            sandboxed = self._process.sandboxed
            return self._of_process(sandboxed.wait(policy.DYING_S) or sandboxed.kill())
        except ChannelGarbled as error:
            raise EvaluatorError(f"the referee does not speak the protocol: {error}") from error
        self.usable = True
        return found

    def _converse(self, request: wire.InspectProblem | wire.DescribeProblem, deadline: float) -> JsonObject:
        def wait_s() -> float:
            return max(0.0, deadline - time.monotonic())

        answer: wire.ProblemFound | wire.ChildEnded
        answer = self._process.converse(request, self._dispatcher, wait_s=wait_s)
        if isinstance(answer, wire.ChildEnded):
            return self._of_child(answer.code)
        self._process.answer((wire.ChildEnded,), self._dispatcher, wait_s=wait_s)
        return answer.found

    def _of_child(self, code: int) -> JsonObject:
        """The flaw that the end of the child means."""
        if not self._begun:
            raise EvaluatorError(
                f"looking at the problem ended before it began ({_ending(code)}): {self._tail()}"
            )
        if code == -signal.SIGKILL:
            return _one_flaw("too_big", "killed while it ran, most likely for its memory")
        return _one_flaw("crashes", f"{_ending(code)} {self._tail()}".strip())

    def _of_process(self, report: ExitReport) -> JsonObject:
        """The flaw that the end of the whole process means."""
        if not self._begun:
            raise EvaluatorError(f"the referee died ({report.reason}) {self._tail()}".strip())
        if report.out_of_memory:
            return _one_flaw("too_big", f"ran out of memory: {report.reason}")
        return _one_flaw("crashes", f"{report.reason} {self._tail()}".strip())

    def _tail(self) -> str:
        return self._process.output(policy.INSPECTION_TAIL)


def flaws_of(
    memory: MeasurementCache, problem: Problem, config: EvaluationConfig, device: str, seen: Iterable[str]
) -> tuple[str, ...]:
    """Names of a problem's flaws: from its last vetting under this policy, and `seen` by a referee since."""
    stored = memory.recall(_key(problem, config, device)).get("vetting")
    vetted: tuple[str, ...] = ()
    if stored is not None:
        try:
            vetted = tuple(remark.name for remark in ProblemReport.model_validate(stored).flaws)
        except ValueError:
            vetted = ()  # written by another version; vetting again replaces it
    return tuple(dict.fromkeys((*vetted, *seen)))


def _available_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  (not a file, no Path needed)
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 4 << 30


def _ending(code: int) -> str:
    return f"killed by {signal_name(-code)}" if code < 0 else f"exited with {code}"


def _one_flaw(name: str, detail: str) -> JsonObject:
    return {"remarks": [flaw_of(name, detail)]}


def _key(problem: Problem, config: EvaluationConfig, device: str) -> str:
    return f"vetting:{problem.sha}:{config.shapes}:{config.dtype}:{config.math}:{device}"
