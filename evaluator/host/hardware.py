"""This machine, seen from the driver without importing torch: devices, cores, compilers, GPU state."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.evaluator.backends.registry import find_backend
from kernelwright.evaluator.host.policy import CORES_EACH, GIB_EACH, PER_GPU
from kernelwright.evaluator.schema.errors import ConfigError, MachineError

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
    uuid: str
    """Such as `GPU-8a1b2c3d-...`."""
    bus: str
    """PCI bus address, such as `00000000:18:00.0`."""
    memory_gib: float = math.inf
    """All of its memory; infinite where the driver does not tell."""


@cache
def gpus() -> tuple[Gpu, ...]:
    """GPUs that `nvidia-smi` describes; empty without one."""
    names = "index,name,driver_version,compute_cap,uuid,pci.bus_id,memory.total"
    found = []
    for line in _smi(names).splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != names.count(",") + 1 or not parts[0].isdigit():
            continue  # such as an error in place of a GPU that fell off the bus
        index, name, driver, capability, uuid, bus, memory = parts
        architecture = "sm_" + capability.replace(".", "")
        gib = float(memory.split()[0]) / 1024 if memory[:1].isdigit() else math.inf
        found.append(Gpu(int(index), name, driver, architecture, uuid, bus, gib))
    return tuple(found)


def resolve_devices(wanted: str, backend: str) -> tuple[str, ...]:
    """Every device a name stands for: `auto` is the backend's kind, `cuda` all GPUs, commas part several.

    Raises:
        ConfigError: not a device name.
        MachineError: no such device here.
    """
    kind = find_backend(backend).device if wanted == "auto" else wanted
    if kind == "cuda":
        kind = ",".join(f"cuda:{index}" for index in _visible()) or "cuda:0"
    return tuple(dict.fromkeys(_checked(name.strip()) for name in kind.split(",")))


def resolve_device(wanted: str, backend: str) -> str:
    """The first device a name stands for; raises what `resolve_devices` does."""
    return resolve_devices(wanted, backend)[0]


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The number of evaluations that keep the devices busy: while one is timed, others build and verify."""

    count: int
    limit: str
    """The reason why there are no more, in words."""


def evaluations_at_once(wanted: str, backends: Iterable[str]) -> Concurrency:
    """The number of evaluations that keep the devices busy; raises what `resolve_devices` does."""
    devices = {name for backend in backends for name in resolve_devices(wanted, backend)}
    cores, used = len(os.sched_getaffinity(0)), [gpu for name in devices if (gpu := gpu_of(name))]
    if not used:
        return Concurrency(min(2, cores), "the processor times one" if cores > 1 else "there is one core")
    by_cores = cores // (CORES_EACH * len(used))
    by_memory = [int(min(gpu.memory_gib / GIB_EACH, PER_GPU)) for gpu in used]
    count = sum(max(1, min(by_cores, fitting)) for fitting in by_memory)
    if by_cores <= min(*by_memory, PER_GPU - 1):
        limit = f"{cores} cores for {len(used)} GPUs, {CORES_EACH} for each evaluation"
    elif min(by_memory) < PER_GPU:
        limit = f"GPU memory, {GIB_EACH:.0f} GiB for each evaluation"
    else:
        limit = "a GPU times one"
    return Concurrency(count, limit)


def _visible() -> list[int]:
    """Indices of the GPUs that `CUDA_VISIBLE_DEVICES` lists; all, where it lists none by index."""
    listed = re.findall(r"\d+", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    if ",".join(listed) != os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", ""):
        listed = []
    every = [gpu.index for gpu in gpus()]
    return [int(index) for index in listed if int(index) in every] or every


def _checked(name: str) -> str:
    if name == "cpu":
        return name
    match = re.fullmatch(r"cuda:(\d+)", name)
    if match is None:
        raise ConfigError(f"unknown device {name!r}; known: auto, cpu, cuda, cuda:N, and several with commas")
    if int(match[1]) >= len(gpus()):
        raise MachineError(
            f"no device {name} here (found {len(gpus())} GPUs); "
            "a CPU candidate needs --device cpu and backend cpp"
        )
    return name


def gpu_of(device: str) -> Gpu | None:
    """The GPU behind `cuda:N`; None for a CPU, and for one that is not here."""
    return next((gpu for gpu in gpus() if f"cuda:{gpu.index}" == device), None)


def gpu_nodes(device: str, folder: Path = Path("/dev")) -> tuple[Path, ...]:
    """Device nodes a process needs to use one GPU and no other."""
    gpu = gpu_of(device)
    if gpu is None:
        return ()
    own = folder / f"nvidia{_minor(gpu)}"
    numbered = sorted(folder.glob("nvidia[0-9]*"), key=lambda node: int(node.name.removeprefix("nvidia")))
    if not own.exists() and len(numbered) == len(gpus()):
        # A container that shows some of its host's GPUs, and not what their driver says of them.
        own = numbered[gpu.index]
    nodes = [own, *(folder / name for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"))]
    return tuple(node for node in nodes if node.exists())


def visible_name(device: str) -> str:
    """The name for `CUDA_VISIBLE_DEVICES` where the GPU's node is the only one.

    CUDA counts the GPUs it can open, so that there the index is another; alone it is 0 either way.
    """
    gpu = gpus()[int(device.partition(":")[2])]
    return gpu.uuid if len(gpus()) > 1 else str(gpu.index)


def _minor(gpu: Gpu, drivers: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """The number in the name of a GPU's node: the kernel's, which need not be how `nvidia-smi` counts."""
    domain, _, place = gpu.bus.lower().partition(":")
    try:
        text = (drivers / f"{domain[-4:]}:{place}" / "information").read_text("utf-8", "replace")
    except OSError:
        return gpu.index
    told = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
    return int(told[1]) if told else gpu.index


def wait_policy() -> dict[str, str]:
    """The way threads of candidates and baselines wait for each other, if set: `OMP_WAIT_POLICY`.

    By default they spin for a while, which is quick on cores of one's own, and very slow on shared ones.
    """
    told = os.environ.get("OMP_WAIT_POLICY", "").strip().lower()
    return {"OMP_WAIT_POLICY": told} if told in ("active", "passive") else {}


def device_state(device: str) -> dict[str, str]:
    """Clocks, temperature, power and throttle reasons of a GPU, as its driver prints them; a CPU's load.

    The load is the average of the last minute against the cores there are: where it is far above them,
    others had the cores, and times on that CPU say little.
    """
    gpu = gpu_of(device)
    if gpu is None:
        return {"load": f"{os.getloadavg()[0]:.2f}", "cores": str(os.cpu_count() or 1)}
    query = ",".join(_STATE)
    # One unknown name spoils the whole answer, and newer drivers call throttling an event.
    told = _smi(query, index=gpu.index) or _smi(query.replace("throttle", "event"), index=gpu.index)
    lines = told.splitlines()
    values = [part.strip() for part in lines[0].split(",")] if lines else []
    return dict(zip(_STATE, values, strict=False))


class GpuStates:
    """Asks the driver for a GPU's state, in threads: an answer takes up to a second, and nobody waits."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._asked: dict[str, threading.Thread] = {}
        self._found: dict[str, dict[str, str]] = {}

    def note(self, when: str) -> None:
        """Ask now; once for each name."""
        if when not in self._asked:
            self._asked[when] = threading.Thread(target=self._ask, args=(when,), daemon=True)
            self._asked[when].start()

    def all(self) -> dict[str, str]:
        """Everything found, each fact under when it was asked for and its own name."""
        for thread in self._asked.values():
            thread.join()
        return {f"{when} {name}": value for when in self._asked for name, value in self._found[when].items()}

    def _ask(self, when: str) -> None:
        self._found[when] = device_state(self._device)


def memory_in_use(device: str) -> float:
    """Share of a GPU's memory that all programs hold; 0 for a CPU, and where its driver does not say."""
    gpu = gpu_of(device)
    told = "" if gpu is None else _smi("memory.used,memory.total", index=gpu.index)
    try:
        used, total = map(float, told.split(","))
    except ValueError:
        return 0.0
    return used / total if total else 0.0


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
