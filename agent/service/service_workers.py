"""Threads that evaluate the entries of the queue, each on one device."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence

from kernelwright.agent.evaluation.evaluation_site import (
    Evaluate,
    EvaluationFailure,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.agent.service.evaluation_queue import EvaluationQueue, RunningEvaluation
from kernelwright.agent.service.policy import FAILURE_CHARACTERS
from kernelwright.agent.service.store import StoreError
from kernelwright.evaluator import Cancelled

_LOG = logging.getLogger(__name__)


def kinds(devices: Sequence[str]) -> dict[str, int]:
    """Count devices by kind, `cpu` or `cuda`."""
    return dict(Counter(device.partition(":")[0] for device in devices))


class ServiceWorkers:
    """One thread for each entry of `devices`; a device with two evaluations at once is listed twice."""

    def __init__(self, queue: EvaluationQueue, evaluate: Evaluate, devices: Sequence[str]) -> None:
        self._queue = queue
        self._evaluate = evaluate
        self.devices = sorted(set(devices))
        # Daemons, so that a second signal ends the process without waiting for an evaluation.
        self._threads = [
            threading.Thread(
                target=self._serve, args=(device,), name=f"worker-{number}-{device}", daemon=True
            )
            for number, device in enumerate(devices)
        ]

    @property
    def alive(self) -> int:
        """Threads at work or waiting for it."""
        return sum(thread.is_alive() for thread in self._threads)

    @property
    def count(self) -> int:
        """Threads there should be."""
        return len(self._threads)

    def start(self) -> None:
        """Begin to evaluate; draining the queue ends it."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait until all have ended; return whether they did."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not self.alive

    def _serve(self, device: str) -> None:
        while (work := self._queue.take(device.partition(":")[0])) is not None:
            try:
                self._run(work, device)
            except StoreError as error:
                _LOG.error("evaluation %s is left to the next service: %s", work.id[:12], error)

    def _run(self, work: RunningEvaluation, device: str) -> None:
        content = work.content
        try:
            config = content.config.model_copy(update={"device": device})
            evaluation = self._evaluate(
                EvaluationRequest(content.problem, content.candidate, config),
                EvaluationHooks(on_stage=work.enter, stop=work.stop),
            )
        except Cancelled:
            self._queue.put_back(work)
        except Exception as error:  # noqa: BLE001 - a seam: what the evaluator raises is recorded, not scored
            failure = EvaluationFailure.of(error)
            line = " ".join(failure.message.split())[:300]
            _LOG.error("evaluation %s on %s failed: %s", work.id[:12], device, line)
            message = failure.message[:FAILURE_CHARACTERS]
            self._queue.finish(work, failure.model_copy(update={"message": message}))
        else:
            _LOG.info("evaluation %s on %s: %s", work.id[:12], device, evaluation.status)
            self._queue.finish(work, evaluation)
