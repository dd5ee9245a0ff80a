"""This machine, seen from the driver without importing torch: devices, cores, compilers, GPU state."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evaluator.backends import find_backend
from evaluator.errors import ConfigError, MachineError

_STATE = (
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "clocks_throttle_reasons.active",
    "utilization.gpu",
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU as the driver describes it."""

    index: int
    name: str
    driver: str
    architecture: str
    """Such as `sm_90`."""


@cache
def gpus() -> tuple[Gpu, ...]:
    """GPUs that `nvidia-smi` lists; empty without one."""
    fields = _smi("index,name,driver_version,compute_cap")
    found = []
    for line in fields.splitlines():
        index, name, driver, capability = (part.strip() for part in line.split(","))
        found.append(Gpu(int(index), name, driver, "sm_" + capability.replace(".", "")))
    return tuple(found)


def resolve_device(wanted: str, backend: str) -> str:
    """`auto` to the backend's first device; others are checked.

    Raises:
        ConfigError: not a device name.
        MachineError: no such device here.
    """
    kind = find_backend(backend).device
    name = {"auto": "cuda:0" if kind == "cuda" else "cpu", "cuda": "cuda:0"}.get(wanted, wanted)
    if name == "cpu":
        return name
    match = re.fullmatch(r"cuda:(\d+)", name)
    if match is None:
        raise ConfigError(f"unknown device {wanted!r}; known: auto, cpu, cuda, cuda:N")
    if int(match[1]) >= len(gpus()):
        raise MachineError(
            f"no device {name} here (found {len(gpus())} GPUs); "
            "a CPU candidate needs --device cpu and backend cpp"
        )
    return name


def gpu_of(device: str) -> Gpu | None:
    """The GPU behind `cuda:N`."""
    return None if device == "cpu" else gpus()[int(device.partition(":")[2])]


def gpu_nodes(device: str) -> tuple[Path, ...]:
    """Device nodes a process needs to use one GPU and no other."""
    gpu = gpu_of(device)
    if gpu is None:
        return ()
    shared = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    nodes = [Path("/dev") / name for name in (f"nvidia{gpu.index}", *shared)]
    return tuple(node for node in nodes if node.exists())


def gpu_state(device: str) -> dict[str, str]:
    """Clocks, temperature, power and throttle reasons of a GPU, as the driver prints them."""
    gpu = gpu_of(device)
    if gpu is None:
        return {}
    lines = _smi(",".join(_STATE), index=gpu.index).splitlines()
    values = [part.strip() for part in lines[0].split(",")] if lines else []
    return dict(zip(_STATE, values, strict=False))


def threads(wanted: int | None) -> int:
    """CPU threads torch gets."""
    return wanted or len(os.sched_getaffinity(0))


@cache
def cpu_name() -> str:
    """The processor's model name."""
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _smi(query: str, *, index: int | None = None) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    which = [] if index is None else [f"--id={index}"]
    try:
        done = subprocess.run(
            [program, *which, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
