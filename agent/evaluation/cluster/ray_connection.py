"""The connection to a Ray cluster: opened, checked for authentication, and asked for its nodes.

The only module here that knows Ray's own interface; it is imported where `--engine ray` asks for it.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Self

from kernelwright.agent.evaluation.cluster.cluster_records import JudgeOrder
from kernelwright.agent.evaluation.cluster.gpu_judge import GpuJudge, NodeBuilder
from kernelwright.agent.evaluation.cluster.policy import BUILDER_CORES, PROBE_S, REACH_S
from kernelwright.evaluator import ConfigError, MachineError

_LOG: Final = logging.getLogger(__name__)
_NODE_LABEL: Final = "ray.io/node-id"
_ACCELERATOR: Final = "accelerator_type:"
_PROBE: Final = """
import sys, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
sys.exit(0 if ray.nodes() else 4)
"""
"""A client without a token."""


class JudgeDied(Exception):
    """A judge's process or node ended, or it does not answer."""

    is_preempted = False
    """True where its node was taken back, which is no candidate's doing."""
    was_before = False
    """True where it had ended before the evaluation began."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster."""

    id: str
    address: str
    resources: Mapping[str, float]

    def fits(self, kind: str, accelerator: str = "") -> bool:
        """True with a device of a kind, and of a type of GPU as Ray names it."""
        has_device = self.resources.get("CPU" if kind == "cpu" else "GPU", 0) >= 1
        return has_device and (not accelerator or f"{_ACCELERATOR}{accelerator}" in self.resources)


class RayConnection:
    """A cluster, connected to. A context manager; one that was connected before stays so."""

    def __init__(self, address: str | None, *, allows_open: bool, judge: type[GpuJudge] = GpuJudge) -> None:
        """`address` as `ray.init` takes it; None takes RAY_ADDRESS, else begins a cluster of this machine.

        `allows_open` accepts a cluster that asks nobody for a token; `judge` is the class of its judges.
        Raises ConfigError if Ray is not installed.
        """
        if find_spec("ray") is None:
            raise ConfigError("--engine ray needs Ray: pip install 'kernelwright[ray]'")
        self._address = address
        self._allows_open = allows_open
        self._judge = judge
        self._is_ours = self._is_begun_here = False

    def __enter__(self) -> Self:
        """Connect; raises ConfigError if the cluster refuses us, MachineError if it does not answer."""
        # Else whatever is asked after the end of the connection begins a cluster of its own.
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
        import ray

        if ray.is_initialized():
            return self
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # keep a host's own device list
        asked: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = self._address or os.environ.get("RAY_ADDRESS")
        if address:
            _refuse_unreachable(address)
        try:
            if address:
                ray.init(address, **asked)
            else:
                # "local" also where another cluster runs here, which may be anybody's.
                ray.init("local", include_dashboard=False, **asked)
        except ray.exceptions.AuthenticationError as error:
            raise ConfigError(f"the cluster {address} refuses this process's token: {error}") from None
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise MachineError(
                f"no Ray cluster answers at {address or 'this machine'}: {error}; "
                "if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
            ) from None
        self._is_ours = True
        self._is_begun_here = not address
        return self

    def __exit__(self, *exception: object) -> None:
        import ray

        if self._is_ours:
            ray.shutdown()

    def refuse_open(self) -> None:
        """Refuse a cluster that lets a process without a token in, unless that is allowed or it is ours.

        Raises ConfigError, also if it cannot be told.
        """
        import ray

        if not self._allows_open and not self._is_begun_here:
            _refuse_open(ray.get_runtime_context().gcs_address)

    def nodes(self) -> list[Node]:
        """Machines that are up; raises JudgeDied once this process is not connected."""
        ray = _connected()
        return [
            Node(one["NodeID"], one["NodeManagerAddress"], one["Resources"])
            for one in ray.nodes()
            if one["Alive"]
        ]

    def start_judge(
        self, order: JudgeOrder, *, avoid: Collection[str], on: str = "", accelerator: str = ""
    ) -> Any:
        """Ask for a judge on any node but those of `avoid`, or on one alone; return Ray's handle at once.

        `accelerator` names a type of GPU as Ray does.
        """
        import ray

        labels = {}
        if on:
            labels[_NODE_LABEL] = on
        elif avoid:
            labels[_NODE_LABEL] = f"!in({','.join(sorted(avoid))})"
        resources = {f"{_ACCELERATOR}{accelerator}": 0.001} if accelerator else {}
        starter = ray.remote(_actor(self._judge)).options(
            num_cpus=1,
            num_gpus=1 if order.kind == "cuda" else 0,
            resources=resources,
            label_selector=labels,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=64,
        )
        return starter.remote(order.model_dump_json().encode())

    def start_builder(self, order: JudgeOrder) -> Any:
        """Ask for a builder on any node, best on one without a GPU; return Ray's handle at once."""
        builder = _connected().remote(NodeBuilder).options(num_cpus=BUILDER_CORES, num_gpus=0, max_restarts=0)
        return builder.remote(order.model_dump_json().encode())

    def ask(self, judge: Any, method: str, *arguments: object) -> Any:
        """Call a judge's method; return Ray's reference at once, or raise JudgeDied."""
        _connected()
        try:
            return getattr(judge, method).remote(*arguments)
        except Exception as error:  # noqa: BLE001 - Ray raises bare ones for an actor that it knows no more
            raise JudgeDied(" ".join(str(error).split())[:400]) from None

    def answer(self, reference: Any, timeout_s: float) -> bytes | str | None:
        """The answer to a call; None when the time is up. Raises JudgeDied if there will be none."""
        ray = _connected()
        try:
            return ray.get(reference, timeout=timeout_s)  # type: ignore[no-any-return]
        except ray.exceptions.GetTimeoutError:
            return None
        except ray.exceptions.RayError as error:
            died = JudgeDied(" ".join(str(error).split())[:400])
            died.is_preempted = bool(getattr(error, "preempted", False))
            raise died from None

    def end_judge(self, judge: Any) -> None:
        """Kill a judge's process; one that cannot be reached ends with this process."""
        with suppress(Exception):
            _connected().kill(judge)


def _connected() -> Any:
    """Ray's module, unless this process is not connected any more: Ray would begin another cluster."""
    import ray

    if not ray.is_initialized():
        raise JudgeDied("not connected to a cluster")
    return ray


def accelerators(nodes: Sequence[Node]) -> list[str]:
    """Types of GPU, as Ray names them."""
    named = {name for node in nodes for name in node.resources if _ACCELERATOR in name}
    return sorted(name.removeprefix(_ACCELERATOR) for name in named)


def _actor(judge: type[GpuJudge]) -> type:
    """The class that Ray instantiates: a judge that learns where it runs."""

    class Judge(judge):  # type: ignore[misc, valid-type]
        def __init__(self, order: bytes) -> None:
            import ray

            node = ray.get_runtime_context().get_node_id()
            super().__init__(order, node, ray.util.get_node_ip_address())

    return Judge


def _refuse_unreachable(address: str) -> None:
    """Refuse an address where nobody listens; Ray would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return  # such as `auto`
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise MachineError(
            f"no Ray cluster answers at {address}: {error}; --address names its head"
        ) from None


def _refuse_open(address: str) -> None:
    """Refuse a cluster that lets a process without a token in, or of which it cannot be told."""
    environment = os.environ | {"RAY_AUTH_MODE": "disabled"}
    environment.pop("RAY_ADDRESS", None)
    with subprocess.Popen(
        [sys.executable, "-c", _PROBE, address],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as probe:
        timer = threading.Timer(PROBE_S, probe.kill)
        timer.start()
        # Ray tries for 20 s to be let in; its first refusal is enough.
        is_refused = any("Unauthenticated" in line for line in probe.stderr or ())
        probe.kill() if is_refused else probe.wait()
        timer.cancel()
    if is_refused:
        return
    why = "does not say whether it asks everybody for a token"
    if probe.returncode == 0:
        why = "lets everybody in who reaches it, and may run their code with its rights"
    raise ConfigError(
        f"the cluster at {address} {why}; start it with RAY_AUTH_MODE=token, or pass --insecure-cluster"
    )
