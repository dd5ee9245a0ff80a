"""Judges that evaluate by what a candidate says of itself; see `tests.agent.service.standin`.

Besides statuses, a candidate may be `DIE`, which ends the process of its judge, or `HANG`.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernelwright.agent.evaluation.cluster.cluster_records import JudgeFacts, NoiseReading
from kernelwright.agent.evaluation.cluster.gpu_judge import GpuJudge
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.evaluator import Evaluation, FullHeaderBuild
from tests.agent.service.standin import StandIn

JOURNAL = "KERNELWRIGHT_TEST_JOURNAL"
"""Environment variable of the file where judges note what they begin and end."""
OTHER = "KERNELWRIGHT_TEST_OTHER"
"""Environment variable of a node whose evaluator is another one."""


class StandInSite:
    """A place that evaluates nothing."""

    at_once = 2
    machine = "a stand-in"

    def __init__(self) -> None:
        journal = os.environ.get(JOURNAL)
        self._judge = StandIn(journal=Path(journal) if journal else None)

    def builds_plainly(self, _: Evaluation) -> FullHeaderBuild:
        return FullHeaderBuild(ok=True)

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        if "'DIE'" in request.candidate.source:
            self.die()
        if "'HANG'" in request.candidate.source:
            threading.Event().wait()
        return self._judge(request, hooks)

    def die(self) -> None:
        os._exit(3)

    def __enter__(self) -> StandInSite:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class StandInJudge(GpuJudge):
    """A judge whose evaluations cost what candidates say."""

    changes: MappingProxyType[str, Any] = MappingProxyType({})
    """What it says of itself that is not so."""

    def open_site(self) -> Any:
        return StandInSite()

    def at_once(self) -> int:
        return 2

    def facts(self) -> bytes:
        changes = dict(self.changes) | ({"evaluator_sha": "0" * 12} if os.environ.get(OTHER) else {})
        found = JudgeFacts.model_validate_json(super().facts())
        return found.model_copy(update=changes).model_dump_json().encode()

    def noise(self) -> bytes:
        return NoiseReading(ratio=1.0).model_dump_json().encode()
