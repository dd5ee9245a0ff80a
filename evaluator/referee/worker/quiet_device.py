"""Hold the device alone: others are stopped, and what they had queued on it has run."""

from __future__ import annotations

import time

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess


def hold_quiet(context: ProblemContext) -> float:
    """Wait until the device is this process's alone and nothing of others runs there; return the seconds.

    A kernel of somebody stopped may run for long. Then calls under a tool, where kernels last longest, come
    to their end first; others go on for a while, or their time would never be used up. What is still there in
    the end is seen by timing. This process's own workers must be stopped.
    """
    began = time.monotonic()
    for attempt in range(policy.QUIET_ATTEMPTS):
        if attempt:
            context.driver.release()
            time.sleep(policy.QUIET_PAUSE_S if attempt > 1 else 0.0)
        context.driver.hold(exclusive=True, after_tools=attempt > 0)
        if context.device.torch_device.type == "cpu":
            break
        with context.driver.step("wait for quiet"):
            is_quiet = _falls_quiet(
                context.device, policy.QUIET_WAIT_S if attempt else policy.FIRST_QUIET_WAIT_S
            )
        if is_quiet:
            break
    return time.monotonic() - began


def yield_device(context: ProblemContext, worker: WorkerProcess) -> None:
    """Give the device away for a moment, while a worker is stopped: others hold memory that it lacks."""
    began = time.monotonic()
    worker.freeze()
    context.driver.release()
    time.sleep(policy.QUIET_PAUSE_S)
    hold_quiet(context)
    worker.thaw()
    worker.extend(time.monotonic() - began)


def _falls_quiet(device: Device, wait_s: float) -> bool:
    """Wait until nobody else has had the device for a while; False where that takes longer than `wait_s`."""
    device.synchronize()
    watch, until = device.watch(), time.monotonic() + wait_s
    while True:
        watch.start()
        time.sleep(policy.QUIET_S)
        if watch.stop() == 0.0:
            return True
        if time.monotonic() > until:
            return False
