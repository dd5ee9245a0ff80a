"""Hardware counters: what ncu is asked, how its log is read, and why nothing may be counted."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from kernelwright.evaluator import Candidate, EvaluationConfig, Evaluator, Status, read_problem
from kernelwright.evaluator.analysis.ncu import NcuRun, read_counters, why_not
from tests.specimens import PROBLEMS

METRICS = {
    "gpu__time_duration.sum": ("ns", "41,248"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "31.5"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "88.25"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "86"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "46.1"),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": ("", "16"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", "1,000"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("", "4,000"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "12.34"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "0.1"),
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": ("%", "n/a"),
    "launch__registers_per_thread": ("register/thread", "40"),
    "launch__grid_size": ("", "16,384"),
}


def written(*launches: tuple[str, str]) -> str:
    """A log as ncu writes it: lines of its own, a heading, a row of units, a row a launch."""
    text = io.StringIO()
    text.write(
        "==PROF== Connected to process 2 (/usr/bin/python3.12)\n==PROF== Disconnected from process 2\n"
    )
    rows = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(["ID", "Process ID", "Kernel Name", "Block Size", *METRICS])
    rows.writerow(["", "", "", "", *(unit for unit, _ in METRICS.values())])
    for number, (kernel, nanoseconds) in enumerate(launches):
        values = {name: value for name, (_, value) in METRICS.items()} | {
            "gpu__time_duration.sum": nanoseconds
        }
        rows.writerow([str(number), "2", kernel, "(256, 1, 1)", *values.values()])
    return text.getvalue()


def test_launches_of_one_kernel_are_one_entry_and_the_longest_comes_first() -> None:
    name = "void softmax<float, 4>(const float *, float *, int)"
    slow, quick = read_counters(written(("quick(int)", "1,000"), (name, "41,248"), (name, "8,752")))
    assert (slow.kernel, slow.launches, slow.milliseconds) == (name, 2, pytest.approx(0.05))
    assert (quick.kernel, quick.launches, quick.milliseconds) == ("quick(int)", 1, pytest.approx(0.001))
    assert (slow.compute_percent, slow.memory_percent, slow.dram_percent) == (31.5, 88.25, 86.0)
    assert (slow.active_warps_percent, slow.sectors_per_load, slow.conflict_share) == (46.1, 16.0, 0.25)
    assert (slow.registers, slow.blocks, slow.shared_bytes) == (40, 16384, None)
    assert slow.tensor_percent is None
    assert slow.stalls == {"global or local memory": 12.34}


@pytest.mark.parametrize("log", ["", "==PROF== nothing\n", '"ID","Kernel Name"\n', '"ID"\n"0"\n"1'])
def test_a_log_without_numbers_is_survived(log: str) -> None:
    assert all(kernel.milliseconds == 0 for kernel in read_counters(log))


def reported(log: str, output: str = "") -> dict[str, object]:
    count = NcuRun(Path("/usr/local/cuda/bin/ncu"))
    try:
        os.pwrite(count.log, log.encode(), 0)
        return count.report(output, "")
    finally:
        count.close()


def test_a_report_says_why_nothing_was_counted() -> None:
    refusal = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n"
    assert reported(refusal)["complete"] is False
    assert "ERR_NVGPUCTRPERM" in str(reported(refusal)["why"])
    assert "no kernels were profiled" in str(reported("", "==WARNING== no kernels were profiled")["why"])
    assert reported(written(("one(int)", "5")))["complete"] is True


def test_counters_kept_for_administrators_are_left_alone(tmp_path: Path) -> None:
    ncu, parameters = tmp_path / "ncu", tmp_path / "params"
    parameters.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    assert "administrators" in why_not(ncu, parameters=parameters)
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    assert why_not(ncu, parameters=parameters) == ""
    assert why_not(ncu, parameters=tmp_path / "none") == ""
    assert "not installed" in why_not(None, parameters=parameters)


def test_only_the_marked_call_is_counted_and_clocks_are_left_alone() -> None:
    count = NcuRun(Path("/usr/local/cuda/bin/ncu"))
    try:
        command = count.command(["python3", "-I", "x"])
    finally:
        count.close()
    assert command[0].endswith("ncu")
    assert command[-3:] == ["python3", "-I", "x"]
    options = " ".join(command)
    assert "--profile-from-start off" in options
    assert "--clock-control none" in options
    assert f"--log-file /proc/self/fd/{count.log}" in options


@pytest.mark.gpu
def test_a_gpu_candidate_is_counted_or_it_is_said_why_not() -> None:
    source = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline
CUDA = r'''
#include <torch/extension.h>
__global__ void swish(const float* x, const float* beta, float* y, long n, long features) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.0f + expf(-beta[i % features] * x[i]));
}
torch::Tensor forward(torch::Tensor x, torch::Tensor beta) {
  auto y = torch::empty_like(x);
  long n = x.numel();
  swish<<<(n + 255) / 256, 256>>>(
    x.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), n, beta.numel());
  return y;
}
'''
built = load_inline(name="counted", cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor beta);",
                    cuda_sources=CUDA, functions=["forward"])
class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(1.0 + 0.5 * torch.randn(features))
    def forward(self, x):
        return built.forward(x, self.beta)
"""
    config = EvaluationConfig(device="cuda", baselines=("eager",), counters=True)
    problem = read_problem(PROBLEMS[0] / "level1" / "23_swish.py")
    with Evaluator() as evaluator:
        evaluation = evaluator.evaluate(problem, Candidate(source=source, backend="cuda"), config)
    assert evaluation.status is Status.PASSED, evaluation.detail
    counters = evaluation.counters
    assert counters is not None
    if counters.ran:
        assert "swish" in counters.kernels[0].kernel
        assert counters.kernels[0].memory_percent is not None
    else:
        assert "administrators" in counters.reason or "not installed" in counters.reason, counters.reason
