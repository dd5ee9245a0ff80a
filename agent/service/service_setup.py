"""Puts the evaluation service together and runs it: state folder, evaluator, workers, HTTP interface."""

from __future__ import annotations

import logging
import resource
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from kernelwright.agent.evaluation.evaluation_site import Evaluate
from kernelwright.agent.evaluation.local_site import LocalSite
from kernelwright.agent.evaluation.policy import AHEAD
from kernelwright.agent.evaluation.service_facts import ServiceFacts, facts_of, sandbox_trouble
from kernelwright.agent.providers.endpoint import is_loopback_host
from kernelwright.agent.service.evaluation_queue import EvaluationQueue
from kernelwright.agent.service.http_app import Front, create_app
from kernelwright.agent.service.middleware import LOOPBACK_NAMES, Tokens
from kernelwright.agent.service.policy import MOST_CONNECTIONS, RequestBounds
from kernelwright.agent.service.server import Service
from kernelwright.agent.service.service_workers import ServiceWorkers, kinds
from kernelwright.agent.service.store import Store
from kernelwright.agent.service.submission import ProblemRegistry
from kernelwright.agent.setup.judge_setup import cluster_of
from kernelwright.agent.setup.problem_lookup import read_problems
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.evaluator import (
    Concurrency,
    EvaluationConfig,
    MachineError,
    Record,
    SandboxTier,
    evaluations_at_once,
    gpus,
    resolve_devices,
)

_LOG: Final = logging.getLogger(__name__)


class ServiceSettings(Record):
    """Settings of one service process; options of `serve` are made from them."""

    config: EvaluationConfig
    problems: tuple[str, ...]
    state: Path
    tokens: tuple[str, ...]
    cache: Path | None
    cluster: RunSettings | None = None
    """Settings that name a cluster to evaluate on; None evaluates on this machine."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port; 0 takes a free one."""
    devices: tuple[str, ...] = ()
    """cpu or cuda:N; may be repeated. Default: every GPU, else cpu."""
    workers: int | None = Field(default=None, ge=1, le=64)
    """Evaluations at once on each device. Default: enough for it."""
    retain_s: float | None = None
    """Forget evaluations this long after their end. Default: never."""
    drain_s: float = 60
    """Time for running evaluations to end after a signal."""
    needs_no_token: bool = False
    """Listen beyond the loopback without a token: whoever reaches it may run code here."""
    allows_sources: bool = False
    """Let clients send own problems."""
    places: int = Field(default=1000, ge=1, le=100_000)
    """Evaluations that may wait."""
    body_mib: int = Field(default=4, ge=1, le=16)
    """Largest request."""
    longest_wait_s: float = 60
    """Longest time a client may wait in one request."""


@dataclass(frozen=True, slots=True)
class _Judges:
    """The place where a service evaluates."""

    evaluate: Evaluate
    devices: list[str]
    """Each as often as it evaluates at once."""
    facts: ServiceFacts
    trouble: Callable[[], tuple[str, ...]]
    """Reasons why it does not evaluate now."""


def serve_until_signal(settings: ServiceSettings, on_ready: Callable[[str, str, int], None]) -> None:
    """Serve until a signal; `on_ready` is told what is served, at which host and port.

    Raises:
        UsageError: no such problem, or the address cannot be had.
        MachineError: no sandbox or device, or the state folder cannot be used.
    """
    problems = read_problems(settings.problems)
    if settings.config.sandbox is SandboxTier.NONE:
        _LOG.warning("warning: --sandbox none: what clients send runs with all your rights")
    with ExitStack() as stack:
        listener = stack.enter_context(listen(settings.host, settings.port))
        store = stack.enter_context(closing(Store(settings.state)))
        judges = _on_cluster(settings, stack) if settings.cluster else _here(settings, stack)
        devices, of_kind = judges.devices, kinds(judges.devices)
        catalogue = ProblemRegistry(
            problems, operator=settings.config, kinds=of_kind, allows_sources=settings.allows_sources
        )
        queue = EvaluationQueue(store, evaluator=judges.facts.label, workers=of_kind, places=settings.places)
        workers = ServiceWorkers(queue, judges.evaluate, devices)
        facts = judges.facts.model_copy(
            update={
                "takes_sources": settings.allows_sources,
                "problems": {problem.id: problem.sha for problem in problems},
            }
        )
        is_private = is_loopback_host(settings.host) and not settings.tokens
        front = Front(
            facts=facts,
            tokens=Tokens(settings.tokens),
            bounds=RequestBounds(body_bytes=settings.body_mib << 20),
            hosts=LOOPBACK_NAMES | {settings.host} if is_private else None,
            longest_wait_s=settings.longest_wait_s,
            retain_s=settings.retain_s,
            trouble=judges.trouble,
        )
        app = create_app(queue, workers, catalogue, front)
        host, port = listener.getsockname()[:2]
        places = ", ".join(f"{device} x{count}" for device, count in Counter(devices).items())
        waiting = f", {queue.queued} evaluations wait" if queue.queued else ""
        on_ready(f"{len(problems)} problems on {places}{waiting}", host, port)
        most = room_for_connections()
        Service(app, queue, workers, drain_s=settings.drain_s, connections=most).answer(listener)


def _here(settings: ServiceSettings, stack: ExitStack) -> _Judges:
    devices = choose_devices(settings.devices, settings.workers)
    if trouble := sandbox_trouble(settings.config.sandbox):
        raise MachineError("; ".join(trouble))
    site = stack.enter_context(LocalSite(settings.cache, Concurrency(len(devices), "as served")))
    return _Judges(
        evaluate=site.evaluate,
        devices=devices,
        facts=facts_of(settings.config, devices),
        trouble=lambda: sandbox_trouble(settings.config.sandbox),
    )


def _on_cluster(settings: ServiceSettings, stack: ExitStack) -> _Judges:
    """The judges of a cluster, of the kinds of device that are asked for, else of those that it has."""
    site = stack.enter_context(
        cluster_of(settings.cluster or RunSettings(), settings.config, settings.devices)
    )
    facts = site.facts()
    served = [device for device in facts.devices for _ in range(device.at_once)]
    return _Judges(
        evaluate=site.evaluate,
        devices=[device.kind for device in served] * AHEAD,
        facts=facts,
        trouble=tuple,
    )


def choose_devices(wanted: Sequence[str], at_once: int | None) -> list[str]:
    """Devices asked for, else every GPU, else the CPU; each as often as it works at once.

    Raises ConfigError if one is no device's name, MachineError if it is not here.
    """
    names = ",".join(wanted) or ("cuda" if gpus() else "cpu")
    devices = resolve_devices(names, "cuda")
    each = at_once or max(1, evaluations_at_once(",".join(devices), ["cuda"]).count // len(devices))
    return [device for device in devices for _ in range(each)]


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises UsageError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --port"
        ) from None


def room_for_connections() -> int:
    """Connections that may be open at once, after asking for as many files as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return min(MOST_CONNECTIONS, most // 2)
