"""Facts of the target device: the table `prompts/hardware.toml`, and this machine itself."""

from __future__ import annotations

import os
import platform
import re
import tomllib
from math import isfinite
from pathlib import Path
from typing import Final, Literal

from kernelwright.agent.prompting import policy
from kernelwright.evaluator import ConfigError, Math, Record, cpu_name, gpus

TABLE: Final = "hardware.toml"
_SIMD: Final = (
    ("avx512f", "AVX-512"),
    ("avx512_bf16", "AVX-512 BF16"),
    ("amx_bf16", "AMX BF16"),
    ("avx2", "AVX2"),
    ("fma", "FMA"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)


class Hardware(Record):
    """One target; None for unknown values."""

    kind: Literal["cpu", "cuda"]
    name: str
    architecture: str = ""
    multiprocessors: int | None = None
    """Streaming multiprocessors of a GPU, usable cores of a CPU."""
    shared_kib_per_sm: int | None = None
    shared_kib_per_block: int | None = None
    registers_per_sm: int | None = None
    threads_per_sm: int | None = None
    l1_kib: int | None = None
    """Data cache of one core."""
    l2_mib: float | None = None
    l3_mib: float | None = None
    memory_gb: float | None = None
    bandwidth_gb_s: float | None = None
    peak: dict[str, float] = {}
    """Dense TFLOP/s (TOP/s) by data type."""
    advice: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    """Parts of the names that drivers report; of several targets the longest match decides."""

    def peak_tflops(self, math: Math) -> float | None:
        """Return the peak rate of a matmul under this precision policy.

        Three TF32 products of split operands are as exact as one in fp32.
        """
        rate = self.peak.get(math.value)
        if math is Math.FP32 and rate is not None:
            return max(rate, self.peak.get("tf32", 0.0) / policy.TF32_PRODUCTS)
        return rate

    def resident_threads(self, registers: int) -> int | None:
        """Threads of a multiprocessor that so many registers a thread allow; None if it is not known."""
        if self.registers_per_sm is None or self.threads_per_sm is None:
            return None
        of_warp = 32 * -(-max(1, registers) // 8) * 8
        return min(self.threads_per_sm, self.registers_per_sm // of_warp * 32)


def read_targets(prompts: Path) -> dict[str, Hardware]:
    """Read the table of targets by short name; raises ConfigError where it is missing or malformed."""
    path = prompts / TABLE
    try:
        rows = tomllib.loads(path.read_text("utf-8"))
        return {name: Hardware(kind="cuda", match=row.pop("match"), **row) for name, row in rows.items()}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"cannot read the hardware table {path}: {error}") from error


def find_target(name: str, prompts: Path) -> Hardware:
    """Return a target by its short name; raises ConfigError, which lists the known ones."""
    targets = read_targets(prompts)
    if name.lower() == "cpu":
        return this_cpu()
    if name.lower() not in targets:
        raise ConfigError(f"unknown target {name!r}; known: cpu, {', '.join(targets)}")
    return targets[name.lower()]


def this_machine(kind: str, prompts: Path) -> Hardware:
    """Return this machine's `cpu` or `cuda` device; a GPU missing from the table is described by its driver.

    Raises:
        ConfigError: no GPU found; the message names the way out.
    """
    if kind == "cpu":
        return this_cpu()
    if not gpus():
        raise ConfigError(
            "no GPU answers here (nvidia-smi); name the one the kernels are for, such as --target h200"
        )
    gpu = gpus()[0]
    memory_gb = round(gpu.memory_gib * 1.024**3, 1) if isfinite(gpu.memory_gib) else None
    return _in_table(gpu.name, prompts) or Hardware(
        kind="cuda", name=gpu.name, architecture=gpu.architecture, memory_gb=memory_gb
    )


def this_cpu() -> Hardware:
    """Describe this processor from `/proc` and `/sys`, without peaks and bandwidth."""
    info = _read(Path("/proc/cpuinfo"))
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.MULTILINE)
    known = set(flags[1].split()) if flags else set()
    caches = {level: _cache_kib(level) for level in ("1", "2", "3")}
    memory = re.search(r"^MemTotal:\s*(\d+)", _read(Path("/proc/meminfo")), re.MULTILINE)
    return Hardware(
        kind="cpu",
        name=cpu_name(),
        architecture=", ".join((platform.machine(), *(word for flag, word in _SIMD if flag in known))),
        multiprocessors=len(os.sched_getaffinity(0)),
        l1_kib=caches["1"],
        l2_mib=None if caches["2"] is None else caches["2"] / 1024,
        l3_mib=None if caches["3"] is None else caches["3"] / 1024,
        memory_gb=round(int(memory[1]) / 1e6, 1) if memory else None,
    )


def hardware_named(name: str, kind: str, prompts: Path) -> Hardware:
    """Return the device whose driver reports this name; of one that the table lacks the name alone.

    Raises:
        ConfigError: the table is missing or malformed.
    """
    if kind == "cpu":
        return Hardware(kind="cpu", name=name)
    return _in_table(name, prompts) or Hardware(kind="cuda", name=name)


def _in_table(name: str, prompts: Path) -> Hardware | None:
    table = read_targets(prompts)
    fits = [(len(word), key) for key, target in table.items() for word in target.match if word in name]
    return table[max(fits)[1]] if fits else None


def _cache_kib(level: str) -> int | None:
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "level").strip() == level and _read(index / "type").strip() != "Instruction":
            size = re.fullmatch(r"(\d+)([KM]?)", _read(index / "size").strip())
            return int(size[1]) * (1024 if size[2] == "M" else 1) if size else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
