"""Runs NVIDIA's ncu to read a GPU's hardware counters for one call of a candidate.

Counters explain a time and decide nothing. Where the NVIDIA driver reserves them for administrators nothing
is counted: no candidate is given that right. Metric names are those of the Nsight Compute documentation.
"""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kernelwright.evaluator.analysis import policy
from kernelwright.evaluator.sandbox import SandboxPolicy, unseen_binds
from kernelwright.evaluator.schema.evaluation import KernelCounters

COUNTERS: Final = "ncu"
"""Tool name of a process that is started under ncu."""
_DRIVER_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_TIME: Final = "gpu__time_duration.sum"
_PERCENTS: Final = {
    "compute_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_percent": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_percent": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_percent": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "tensor_percent": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "active_warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
_RATIOS: Final = {
    "sectors_per_load": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "sectors_per_store": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
}
_TAKEN: Final = {
    "registers": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block",
    "block_threads": "launch__block_size",
    "blocks": "launch__grid_size",
}
_CONFLICTS: Final = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
)
_STALL: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_STALLS: Final = {
    "long_scoreboard": "global or local memory",
    "short_scoreboard": "shared memory or special functions",
    "barrier": "a barrier",
    "mio_throttle": "room in the shared-memory queue",
    "lg_throttle": "room in the global-memory queue",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "wait": "a fixed latency",
    "not_selected": "other warps that were ready",
    "membar": "a memory fence",
    "gmma": "tensor core products",
}
_REFUSED: Final = re.compile(r"ERR_NVGPUCTRPERM|[Ll]ibraryNotLoaded|==ERROR==[^\n]*")


def why_not(ncu: Path | None, *, parameters: Path = _DRIVER_PARAMETERS) -> str:
    """The reason why nothing can be counted here; empty when it can be tried."""
    if ncu is None:
        return "ncu is not installed; it is part of the CUDA toolkit (Nsight Compute)"
    try:
        restricted = "RmProfilingAdminOnly: 1" in parameters.read_text()
    except OSError:
        restricted = False
    if restricted:
        return "the driver keeps counters for administrators (NVreg_RestrictProfilingToAdminUsers=1)"
    return ""


@dataclass(slots=True)
class NcuRun:
    """One process under ncu: its command, sandbox policy and counters."""

    ncu: Path
    log: int = field(init=False, default_factory=lambda: os.memfd_create("counters"))
    """Descriptor of ncu's own log, an anonymous file that candidates do not print to."""

    def command(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` under ncu, which counts between profiler start and stop only."""
        options = ["--csv", "--page", "raw", "--print-units", "base"]
        options += ["--log-file", f"/proc/self/fd/{self.log}"]
        options += ["--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all"]
        options += ["--target-processes", "application-only", "--launch-count", str(policy.MAX_LAUNCHES)]
        return [str(self.ncu), *options, "--metrics", ",".join(_metrics()), *argv]

    def policy(self, contestant: SandboxPolicy) -> SandboxPolicy:
        """A contestant's policy that also shows the tool."""
        return replace(
            contestant,
            nested=True,
            environment={**contestant.environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            binds=(*contestant.binds, *unseen_binds([self.ncu.parent], contestant.binds)),
        )

    def report(self, output: str, source: str) -> dict[str, Any]:  # Any: JSON for the referee
        """The counters for the referee, or why there are none."""
        log = os.pread(self.log, policy.MAX_LOG_BYTES, 0).decode("utf-8", "replace")
        kernels = read_counters(log)
        refused = _REFUSED.search(log + output)
        silent = f"ncu wrote no counters; printed was: {(log or output)[-300:].strip()}"
        return {
            "complete": bool(kernels),
            "why": "" if kernels else refused[0] if refused else silent,
            "findings": [],
            "counters": [kernel.model_dump(mode="json") for kernel in kernels],
        }

    def close(self) -> None:
        os.close(self.log)


def read_counters(log: str) -> list[KernelCounters]:
    """The kernels of an ncu log in CSV, the longest first, with all their launches together."""
    lines = log.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    launches: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    for row in csv.DictReader(lines[start:]):
        if (row.get("ID") or "").isdigit():  # the row below the heading has units
            launches[row.get("Kernel Name") or "?"].append(_numbers(row))
    kernels = [_kernel(name, rows) for name, rows in launches.items()]
    return sorted(kernels, key=lambda kernel: -kernel.milliseconds)[: policy.MAX_COUNTED_KERNELS]


def _metrics() -> Iterable[str]:
    yield _TIME
    for names in (_PERCENTS, _RATIOS, _TAKEN):
        yield from names.values()
    yield from _CONFLICTS
    yield from (_STALL.format(reason) for reason in _STALLS)


def _numbers(row: Mapping[str, str | None]) -> dict[str, float]:
    numbers = {}
    for name, text in row.items():
        try:
            numbers[name] = float((text or "").replace(",", ""))
        except ValueError:
            continue
    return numbers


def _kernel(name: str, launches: list[dict[str, float]]) -> KernelCounters:
    """One kernel: time of all launches, other counters of the longest."""
    longest = max(launches, key=lambda row: row.get(_TIME, 0.0))
    taken = {key: longest.get(metric) for key, metric in _TAKEN.items()}
    conflicts, wavefronts = (longest.get(metric) for metric in _CONFLICTS)
    stalls = {words: longest.get(_STALL.format(reason), 0.0) for reason, words in _STALLS.items()}
    worst = sorted(stalls.items(), key=lambda item: -item[1])[: policy.MAX_STALLS]
    return KernelCounters(
        kernel=name,
        launches=len(launches),
        milliseconds=sum(row.get(_TIME, 0.0) for row in launches) / 1e6,
        **{key: longest.get(metric) for key, metric in (_PERCENTS | _RATIOS).items()},
        **{key: None if value is None else int(value) for key, value in taken.items()},
        conflict_share=conflicts / wavefronts if conflicts is not None and wavefronts else None,
        stalls={words: round(cycles, 2) for words, cycles in worst if cycles >= policy.MIN_STALL_CYCLES},
    )
