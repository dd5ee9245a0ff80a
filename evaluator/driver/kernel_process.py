"""A sandboxed process for one saved kernel, outside any evaluation: its channel, its builds, its end."""

from __future__ import annotations

from kernelwright.evaluator.driver.build_broker import BuildBroker
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.driver.policy import LAST_BREATH_S
from kernelwright.evaluator.driver.referee_client import EvaluatorResources
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import threads
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.contestant_messages import Built, Setup
from kernelwright.evaluator.ipc.driver_requests import BuildLibrary
from kernelwright.evaluator.schema.config import EvaluationConfig


class KernelProcess:
    """A contestant that somebody other than a referee commands; it is bounded and isolated alike."""

    def __init__(self, resources: EvaluatorResources, config: EvaluationConfig, device: str) -> None:
        """Start it on a device; raises MachineError where the sandbox cannot be started."""
        count = threads(config.threads)
        self.device = device
        """Such as `cuda:0`."""
        self._lock = DeviceLock(device)
        self._builds = BuildBroker(resources.builder, device, self._lock, config.limits.build_s)
        self._job = EvaluationJob()
        self._worker = resources.process_launcher(config, device, count).start("candidate")
        self.channel = Channel(self._worker.channel_end)
        kind = device.partition(":")[0]
        self.setup = Setup(device=kind, threads=count, math=config.math.value)
        """Its first message."""

    def build(self, request: object) -> Built:
        """Build a library that it asked for; the request is hostile, and checked as in an evaluation."""
        asked = BuildLibrary(id=self._worker.number, request=request)
        built = self._builds.build(asked, self._worker, self._job)
        self._lock.release()
        return Built(ok=built.ok, path=built.path, module_name=built.module_name, log=built.log)

    def end(self) -> str:
        """Kill it and all it started; returns how it had ended."""
        ended = self._worker.sandboxed.wait(LAST_BREATH_S)
        report = self._worker.end()
        self._lock.close()
        return (ended or report).reason
