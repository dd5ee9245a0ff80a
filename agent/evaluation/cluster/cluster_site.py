"""Evaluates on the nodes of a Ray cluster; see `EvaluationSite`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kernelwright.agent.evaluation.cluster.builder_pool import BuilderPool
from kernelwright.agent.evaluation.cluster.cluster_records import ClusterRequest, JudgeOrder
from kernelwright.agent.evaluation.cluster.judge_handle import JudgeHandle
from kernelwright.agent.evaluation.cluster.judge_pool import Ask, JudgePool, PoolOrder
from kernelwright.agent.evaluation.cluster.policy import MOST_PREEMPTIONS, QUARANTINE_LOSSES
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, RayConnection, accelerators
from kernelwright.agent.evaluation.evaluation_site import (
    CandidateQuarantined,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.agent.evaluation.handshake import refuse_other_content
from kernelwright.agent.evaluation.policy import AHEAD, MOST_AT_ONCE
from kernelwright.agent.evaluation.remote_evaluation import refuse_stopped
from kernelwright.agent.evaluation.service_facts import ServiceFacts
from kernelwright.evaluator import (
    ConfigError,
    Evaluation,
    EvaluationConfig,
    FullHeaderBuild,
    MachineError,
    default_cache,
    find_backend,
    sha256_text,
    write_whole,
)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The judges that are wanted of a cluster."""

    judges: int | None = None
    """Judges at most; None as many as the cluster has devices now."""
    builders: int = 0
    """Builders for the judges of each kind of device."""
    device: str | None = None
    """Name of the device that is meant, where there are several."""
    cache: Path | None = None
    """Folder of builds, baselines and quarantined candidates, here and on the nodes."""
    checks_noise: bool | None = None
    """Time a program against itself on each judge first; None does so on GPUs, since a CPU's scores say
    themselves when other work disturbed them."""


@dataclass(slots=True)
class _Losses:
    """The judges that were lost during one candidate."""

    reasons: list[str] = field(default_factory=list)
    """Those that it may have taken down."""
    nodes: set[str] = field(default_factory=set)
    preemptions: int = 0

    def add(self, judge: JudgeHandle, died: JudgeDied) -> None:
        """Count one more; raise if too many were taken back."""
        if died.is_preempted:
            self.preemptions += 1
            if self.preemptions > MOST_PREEMPTIONS:
                raise MachineError(f"{self.preemptions} nodes in a row were taken back") from None
        elif not died.was_before:
            self.reasons.append(f"{judge.place} was lost: {died}")
            self.nodes |= {judge.facts.node} if judge.facts else set()


class ClusterSite:
    """The judges of a cluster. Usable from any thread."""

    def __init__(
        self,
        connection: RayConnection,
        settings: ClusterSettings,
        config: EvaluationConfig,
        backends: Iterable[str] = (),
    ) -> None:
        """`connection` is opened on entering. Raises ConfigError for a device by number: Ray chooses it."""
        if config.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(
                f"--engine ray chooses the device; leave {config.device!r} out, or say cuda or cpu"
            )
        self._settings, self._config = settings, config
        self._backends = tuple(backends)
        self._kinds = {find_backend(name).device for name in self._backends} or {"cuda"}
        if config.device != "auto":
            self._kinds = {config.device}
        self._connection = connection
        self._pools: dict[str, JudgePool] = {}
        self._builders: dict[str, BuilderPool] = {}
        self._open = ExitStack()
        self._quarantine = (settings.cache or default_cache()) / "quarantine"
        """Folder of candidates that took judges down, kept until an operator removes them."""
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Connect, and wait for the first judge of each kind.

        Raises ConfigError if no node may evaluate for this process, and MachineError if none answers.
        """
        with ExitStack() as stack:
            stack.enter_context(self._connection).refuse_open()
            for kind in sorted(self._kinds):
                order = self._order(kind)
                builders = BuilderPool(self._connection, order.judge, self._settings.builders)
                self._builders[kind] = stack.enter_context(builders)
                self._pools[kind] = stack.enter_context(JudgePool(self._connection, order))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._open.close()

    @property
    def at_once(self) -> int:
        return max(1, min(MOST_AT_ONCE, AHEAD * self._places))

    @property
    def capacity(self) -> str:
        return f"{self._places} at once by judges of the cluster"

    @property
    def _places(self) -> int:
        return sum(pool.at_once for pool in self._pools.values())

    @property
    def devices(self) -> dict[str, str]:
        return {device.kind: device.name for device in self.facts().devices}

    def kinds(self) -> set[str]:
        """The kinds of the nodes' devices; no judge is asked for."""
        with self._connection as cluster:
            return {"cuda" if node.fits("cuda") else "cpu" for node in cluster.nodes()}

    @property
    def torch(self) -> str:
        return self.facts().torch

    @property
    def machine(self) -> str:
        return "; ".join(self._pools[kind].terms for kind in sorted(self._pools))

    def facts(self) -> ServiceFacts:
        """The facts of all judges together, as a service tells them."""
        found = [pool.facts for pool in self._pools.values()]
        devices = tuple(
            device.model_copy(update={"at_once": pool.at_once})
            for kind, pool in self._pools.items()
            for device in pool.facts.devices
            if device.kind == kind
        )
        told = found[0].model_dump(include=set(ServiceFacts.model_fields))
        return ServiceFacts.model_validate(told | {"devices": devices})

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        if (held := self._held(request)).exists():
            raise CandidateQuarantined(f"not evaluated: it took judges down; remove {held} to try it again")
        kind = find_backend(request.candidate.backend).device
        if kind not in self._pools:
            raise ConfigError(
                f"this cluster was not asked for judges of {request.candidate.backend} candidates"
            )
        losses = _Losses()

        def check() -> None:
            refuse_stopped(hooks, self._closing)

        def waits(ahead: int) -> None:
            check()
            hooks.on_queue(ahead)

        pool = self._pools[kind]
        asked = ClusterRequest(
            problem=request.problem,
            candidate=request.candidate,
            config=request.config,
            builds=self._builders[kind].build(request.candidate.source, pool.facts.architecture, check),
        )
        while len(losses.reasons) < QUARANTINE_LOSSES:
            # After a loss alone, so that no other candidate can be the reason.
            is_alone = bool(losses.reasons)
            with pool.judge(Ask(request.problem.sha, is_alone, losses.nodes, waits)) as judge:
                try:
                    if is_alone:
                        judge.refuse_dead(check)
                    found = judge.evaluate(asked, hooks, check)
                except JudgeDied as died:
                    check()
                    pool.lose(judge, str(died))
                    losses.add(judge, died)
                else:
                    refuse_other_content(judge.place, request, found)
                    return found
        raise self._quarantined(request, losses.reasons)

    def _held(self, request: EvaluationRequest) -> Path:
        key = sha256_text(f"{request.problem.sha}\0{request.candidate.sha}\0{request.candidate.backend}")
        return self._quarantine / f"{key[:32]}.json"

    def _quarantined(self, request: EvaluationRequest, losses: list[str]) -> CandidateQuarantined:
        """Keep a candidate with the reasons for which judges were lost; return the error to raise."""
        path = self._held(request)
        told = {
            "problem": request.problem.id,
            "backend": request.candidate.backend,
            "losses": losses,
            "source": request.candidate.source,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(told, indent=2).encode())
        return CandidateQuarantined(
            f"not evaluated: {'; then '.join(losses)}; the candidate is kept in {path}"
        )

    def builds_plainly(self, evaluation: Evaluation) -> FullHeaderBuild:
        """Rebuild a kernel with torch's headers, on any node; raises MachineError if its judge is lost."""
        pool = self._pools[find_backend(evaluation.backend).device]

        def waits(_: int) -> None:
            refuse_stopped(EvaluationHooks(), self._closing)

        with pool.judge(Ask(evaluation.problem_sha, False, (), waits)) as judge:
            try:
                return FullHeaderBuild.model_validate_json(judge.build_plainly(evaluation, lambda: waits(0)))
            except JudgeDied as died:
                pool.lose(judge, str(died))
                raise MachineError(f"{judge.place} was lost: {died}") from None

    def _order(self, kind: str) -> PoolOrder:
        settings, nodes = self._settings, self._connection.nodes()
        accelerator = ""
        known = accelerators(nodes) if kind == "cuda" else []
        if settings.device and known:
            meant = [name for name in known if name.lower() in settings.device.lower().replace(" ", "")]
            accelerator = max(meant, key=len, default="")  # `L4` is in `l40s`, too
        elif len(known) > 1:
            raise ConfigError(
                f"the cluster has {', '.join(known)}; name the one that is meant with --judge-device"
            )
        fitting = [node.resources for node in nodes if node.fits(kind, accelerator)]
        # One for each GPU, or one for each machine with a core to spare.
        most = settings.judges or sum(int(each["GPU"]) if kind == "cuda" else 1 for each in fitting)
        if not most:
            raise ConfigError(
                f"the cluster has no {kind} device now; say how many to ask for with --cluster-judges, "
                "or evaluate cpp candidates with --device cpu"
            )
        backends = [name for name in self._backends if find_backend(name).device == kind]
        order = JudgeOrder(
            config=self._config.model_copy(update={"device": kind}),
            kind=kind,
            backends=tuple(backends or ["cuda" if kind == "cuda" else "cpp"]),
            cache=str(settings.cache) if settings.cache else None,
        )
        checks = settings.checks_noise
        if checks is None:
            checks = kind == "cuda" and self._config.measure
        return PoolOrder(order, most, settings.device, accelerator, checks_noise=checks)
