"""Puts a service together and runs it: the state folder, the evaluator, its workers and the door."""

from __future__ import annotations

import logging
import resource
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.agent.cli.terminal.failures import Usage, say
from kernelwright.agent.prompting.hardware_facts import this_cpu
from kernelwright.agent.records.provenance import versions
from kernelwright.agent.service.app import Front, create_app
from kernelwright.agent.service.evaluation_queue import EvaluationQueue
from kernelwright.agent.service.middleware import LOOPBACK_NAMES, Bounds, Tokens
from kernelwright.agent.service.problem_registry import ProblemRegistry
from kernelwright.agent.service.server import Patience, Service
from kernelwright.agent.service.service_workers import ServiceWorkers, kinds
from kernelwright.agent.service.store import Store
from kernelwright.agent.setup.problem_lookup import read_problems
from kernelwright.evaluator import (
    EvaluationConfig,
    Evaluator,
    MachineError,
    SandboxTier,
    evaluations_at_once,
    gpus,
    probe,
    resolve_devices,
    source_sha,
)

RECENT_BYTES: Final = 32 << 20
MOST_CONNECTIONS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the operator asked for."""

    config: EvaluationConfig
    problems: Sequence[str]
    host: str
    port: int
    state: Path
    devices: Sequence[str]
    workers: int | None
    retain_s: float | None
    drain_s: float
    tokens: Sequence[str]
    is_open: bool
    allows_sources: bool
    places: int
    body_bytes: int
    longest_wait_s: float
    cache: Path | None


def go(wishes: Wishes) -> None:
    """Serve until a signal.

    Raises:
        Usage: no such problem, or the address cannot be had.
        MachineError: no sandbox or device, or the state folder cannot be used.
    """
    problems = read_problems(wishes.problems)
    devices = choose_devices(wishes.devices, wishes.workers)
    trouble = sandbox_trouble(wishes.config.sandbox)
    if trouble:
        raise MachineError("; ".join(trouble))
    if wishes.config.sandbox is SandboxTier.NONE:
        say("warning: --sandbox none: what clients send runs here with all your rights")
    of_kind = kinds(devices)
    catalogue = ProblemRegistry(
        problems, operator=wishes.config, kinds=of_kind, allows_sources=wishes.allows_sources
    )
    with ExitStack() as stack:
        listener = stack.enter_context(listen(wishes.host, wishes.port))
        store = stack.enter_context(closing(Store(wishes.state)))
        evaluator = stack.enter_context(Evaluator(cache=wishes.cache, idle_referees=max(2, len(devices))))
        desk = EvaluationQueue(
            store,
            judge=judge_of(devices),
            workers=of_kind,
            places=wishes.places,
            recent_bytes=RECENT_BYTES,
        )
        workers = ServiceWorkers(desk, evaluator.evaluate, devices)
        app = create_app(desk, workers, catalogue, _front(wishes))
        patience = Patience(drain_s=wishes.drain_s, connections=room_for_connections())
        _announce(listener, desk, devices, len(problems))
        _log_to_stderr()
        Service(app, desk, workers, patience=patience).answer(listener)


def choose_devices(wanted: Sequence[str], at_once: int | None) -> list[str]:
    """Devices to judge on, those asked for, else every GPU, else the CPU; each as often as it works at once.

    Raises:
        ConfigError: not a device's name.
        MachineError: no such device here.
    """
    names = ",".join(wanted) or ("cuda" if gpus() else "cpu")
    devices = resolve_devices(names, "cuda")
    each = at_once or max(1, evaluations_at_once(",".join(devices), ["cuda"]) // len(devices))
    return [device for device in devices for _ in range(each)]


def sandbox_trouble(wanted: SandboxTier | None) -> tuple[str, ...]:
    """Why no candidate can be run here; empty if one can."""
    tiers = probe().tiers
    usable = [wanted] if wanted else [SandboxTier.BUBBLEWRAP, SandboxTier.CONFINED]
    if any(tiers[tier].works for tier in usable):
        return ()
    return (f"no sandbox works here: {tiers[usable[0]].reason}",)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        Usage: the address cannot be had.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise Usage(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --port"
        ) from None


def room_for_connections() -> int:
    """Connections that may be open at once, after asking for as many files as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return min(MOST_CONNECTIONS, most // 2)


def judge_of(devices: Sequence[str]) -> str:
    """Whose verdicts these are: another version's or other hardware's answer another question."""
    known = {f"cuda:{gpu.index}": gpu.name for gpu in gpus()}
    hardware = sorted({known.get(device) or this_cpu().name for device in devices})
    found = versions()
    told = [f"{name} {found.get(name, 'unknown')}" for name in ("kernelwright", "torch")]
    return ", ".join([*told, f"evaluator {source_sha()}", *hardware])


def _front(wishes: Wishes) -> Front:
    return Front(
        tokens=Tokens(wishes.tokens),
        bounds=Bounds(body_bytes=wishes.body_bytes),
        hosts=None if wishes.tokens or wishes.is_open else LOOPBACK_NAMES | {wishes.host},
        longest_wait_s=wishes.longest_wait_s,
        retain_s=wishes.retain_s,
        trouble=lambda: sandbox_trouble(wishes.config.sandbox),
    )


def _log_to_stderr() -> None:
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _announce(listener: socket.socket, desk: EvaluationQueue, devices: Sequence[str], problems: int) -> None:
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    places = [f"{device} x{count}" for device, count in Counter(devices).items()]
    waiting = f", {desk.queued} evaluations wait" if desk.queued else ""
    print(f"judging {problems} problems on {', '.join(places)}{waiting}; Ctrl-C drains")
    print(f"http://{name}:{port}   # interface: http://{name}:{port}/docs", flush=True)
