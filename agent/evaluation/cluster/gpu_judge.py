"""The judge on a node, an evaluator for one device, and a builder on its cores. Ray actors; imports no Ray.

Its methods take and return JSON. Several threads call it at once: those that evaluate, and one that asks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelwright.agent.evaluation.cluster.cluster_records import (
    CandidateBuilds,
    ClusterAnswer,
    ClusterRequest,
    JudgeFacts,
    JudgeOrder,
    NoiseReading,
)
from kernelwright.agent.evaluation.evaluation_site import (
    EvaluationFailure,
    EvaluationHooks,
    EvaluationRequest,
    EvaluationSite,
    told,
)
from kernelwright.agent.evaluation.local_site import LocalSite
from kernelwright.agent.evaluation.service_facts import facts_of, sandbox_trouble
from kernelwright.evaluator import (
    BuildsElsewhere,
    CancelToken,
    Candidate,
    Concurrency,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    FullHeaderBuild,
    MachineError,
    PackedBuild,
    Sanitize,
    Stage,
    default_cache,
    evaluations_at_once,
    gpus,
    problem_from_source,
    resolve_devices,
    store_builds,
)

_LOG: Final = logging.getLogger(__name__)

_NOISE_SOURCE = '''"""Row sums of a logistic function."""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum(1)


def get_inputs():
    return [torch.randn({rows}, 1024)]


def get_init_inputs():
    return []
'''
_NOISE_ROWS = {"cuda": 8192, "cpu": 256}


@dataclass(slots=True)
class _UnderWay:
    stop: CancelToken = field(default_factory=CancelToken)
    stage: str = ""

    def enter(self, stage: Stage) -> None:
        self.stage = stage.value


class GpuJudge:
    """Evaluates on the one device that Ray shows this process, or on the processor."""

    def __init__(self, order: bytes, node: str, address: str) -> None:
        """`node` and `address` are Ray's names of the machine."""
        # Ray sets it to the cores it counts for an actor; candidates and baselines get those of the policy.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._order = JudgeOrder.model_validate_json(order)
        self._node, self._address = node, address
        self._cache = Path(self._order.cache) if self._order.cache else default_cache()
        self._guard = threading.Lock()
        self._under_way: dict[str, _UnderWay] = {}
        self._site = self.open_site()

    def open_site(self) -> EvaluationSite:
        """The evaluator of this judge."""
        return LocalSite(self._cache, Concurrency(self.at_once(), "its share of the node"))

    def at_once(self) -> int:
        """Evaluations at once on this device: its share of the node's cores and memory."""
        try:
            if self._order.kind == "cpu":
                return evaluations_at_once("cpu", self._order.backends).count
            every = [f"cuda:{gpu.index}" for gpu in gpus()]
            return max(1, evaluations_at_once(",".join(every), self._order.backends).count // len(every))
        except EvaluatorError:
            return 1  # without a device, which its facts tell

    def facts(self) -> bytes:
        """Describe this judge; a reason why it cannot evaluate is part of it."""
        trouble = list(sandbox_trouble(self._order.config.sandbox))
        devices: tuple[str, ...] = ()
        try:
            devices = resolve_devices(self._order.kind, "cuda")
        except EvaluatorError as error:
            trouble.append(str(error))
        seen = facts_of(self._order.config, list(devices) * self.at_once())
        found = JudgeFacts(
            **seen.model_dump(exclude={"trouble"}),
            trouble=tuple(trouble),
            node=self._node,
            address=self._address,
            cores=len(os.sched_getaffinity(0)),
            driver=gpus()[0].driver if gpus() else "",
            architecture=gpus()[0].architecture if gpus() and self._order.kind == "cuda" else None,
        )
        return found.model_dump_json().encode()

    def evaluate(self, ticket: str, request: bytes) -> bytes:
        """Evaluate a `ClusterRequest`; return a `ClusterAnswer`. `ticket` names it to the other methods."""
        work = self._enter(ticket)
        try:
            asked = ClusterRequest.model_validate_json(request)
            self._store(asked.builds)
            whole = EvaluationRequest(asked.problem, asked.candidate, asked.config)
            hooks = EvaluationHooks(on_stage=work.enter, stop=work.stop)
            answer = ClusterAnswer(evaluation=self._site.evaluate(whole, hooks))
        except Exception as error:  # noqa: BLE001 - a seam: the caller gets it as a failure, never as a score
            answer = ClusterAnswer(failure=EvaluationFailure.of(error))
        finally:
            with self._guard:
                self._under_way.pop(ticket, None)
        return answer.model_dump_json().encode()

    def stage(self, ticket: str) -> str:
        """The stage that an evaluation is in; empty before its first."""
        work = self._under_way.get(ticket)
        return work.stage if work else ""

    def stop(self, ticket: str) -> None:
        """Stop an evaluation, also one that has not begun."""
        self._enter(ticket).stop.set()

    def build_plainly(self, evaluation: bytes) -> bytes:
        """Rebuild a kernel with torch's own headers; return a `FullHeaderBuild`."""
        build = self._site.builds_plainly
        try:
            if build is None:
                raise EvaluatorError("this judge rebuilds nothing")
            found = build(Evaluation.model_validate_json(evaluation))
        except Exception as error:  # noqa: BLE001 - a seam: to its caller a judge that raises is a lost one
            found = FullHeaderBuild(ok=None, why=told(error))
        return found.model_dump_json().encode()

    def noise(self) -> bytes:
        """Time a program against itself; return a `NoiseReading`."""
        return _noise(self._site, self._order).model_dump_json().encode()

    def _store(self, builds: Sequence[PackedBuild]) -> None:
        try:
            store_builds(self._cache, builds)
        except MachineError as error:
            _LOG.warning("%s; it is built here", error)

    def _enter(self, ticket: str) -> _UnderWay:
        with self._guard:
            return self._under_way.setdefault(ticket, _UnderWay())


class NodeBuilder:
    """Builds one candidate at a time; its methods take text and return JSON."""

    def __init__(self, order: bytes) -> None:
        """`order` is that of the judges that it builds for."""
        asked = JudgeOrder.model_validate_json(order)
        self.builds = BuildsElsewhere(Path(asked.cache) if asked.cache else default_cache(), asked.config)

    def is_ready(self) -> bytes:
        """Answer, which shows that it runs."""
        return b"{}"

    def build(self, source: str, architecture: str | None) -> bytes:
        """Build what a candidate's text announces; return `CandidateBuilds`."""
        found = CandidateBuilds(builds=tuple(self.builds.build(source, architecture)))
        return found.model_dump_json().encode()


def _noise(site: EvaluationSite, order: JudgeOrder) -> NoiseReading:
    """Time a program against itself (A/A): a device on which the two differ is too noisy to score on."""
    problem = problem_from_source(_NOISE_SOURCE.format(rows=_NOISE_ROWS[order.kind]), "check/noise")
    source = problem.source.replace("class Model(", "class ModelNew(")
    candidate = Candidate(source=source, backend="cpp" if order.kind == "cpu" else "cuda")
    asked = order.config
    config = EvaluationConfig(
        device=asked.device,
        sandbox=asked.sandbox,
        threads=asked.threads,
        baselines=("eager",),
        trials=1,
        sanitize=Sanitize.OFF,
    )
    try:
        found = site.evaluate(EvaluationRequest(problem, candidate, config), EvaluationHooks())
    except EvaluatorError as error:
        return NoiseReading(ratio=None, why=str(error))
    if not found.speedup:
        return NoiseReading(ratio=None, why=f"{found.status}: {found.detail}")
    return NoiseReading(ratio=max(found.speedup, 1 / found.speedup))
