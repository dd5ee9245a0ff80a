"""compute-sanitizer on a GPU: what it must convict, and honest kernels it must leave alone.

Extensions here see no torch header, so that a build takes a second; `run` gets pointers and a size.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    Candidate,
    EvaluationConfig,
    Evaluator,
    Problem,
    Sanitization,
    Sanitize,
    Stage,
    Status,
    problem_from_source,
)

pytestmark = pytest.mark.gpu
CONFIG = EvaluationConfig(measure=False, trials=2, sanitize=Sanitize.ALL)


def problem(name: str, forward: str, inputs: str, size: int) -> Problem:
    source = f"""
import torch
from torch import nn

N = {size}

class Model(nn.Module):
    def forward(self, *inputs):
        return {forward}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
    return problem_from_source(source, f"{name}_{size}")


def matmul_problem(size: int) -> Problem:
    return problem("matmul", "inputs[0] @ inputs[1]", "torch.rand(N, N), torch.rand(N, N)", size)


def extension(body: str, output: str = "torch.empty_like(inputs[0])") -> Candidate:
    """A candidate around `extern "C" void run(in, in or null, out, n)`; `body` is CUDA with that function."""
    source = f'''
import ctypes, torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_runtime.h>
{textwrap.dedent(body)}
"""
path = load_inline(
    name="ext", cpp_sources=[], cuda_sources=SOURCE, functions=None, no_implicit_headers=True,
    is_python_module=False,
)
run = ctypes.CDLL(path).run

class ModelNew(nn.Module):
    def forward(self, *inputs):
        inputs = [each.contiguous() for each in inputs]
        out = {output}
        second = inputs[1].data_ptr() if len(inputs) > 1 else 0
        pointers = (inputs[0].data_ptr(), second, out.data_ptr())
        run(*map(ctypes.c_void_p, pointers), ctypes.c_int(inputs[0].shape[-1]))
        return out
'''
    return Candidate(source=source, backend="cuda")


def tiled_matmul(last_barrier: str) -> Candidate:
    return extension(
        """
        #define T 32
        __global__ void matmul(const float* a, const float* b, float* c, int n) {
            __shared__ float x[T][T], y[T][T];
            int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
            float sum = 0;
            for (int k = 0; k < (n + T - 1) / T; ++k) {
                int i = k * T + threadIdx.x, j = k * T + threadIdx.y;
                x[threadIdx.y][threadIdx.x] = row < n && i < n ? a[row * n + i] : 0;
                y[threadIdx.y][threadIdx.x] = j < n && column < n ? b[j * n + column] : 0;
                __syncthreads();
                for (int t = 0; t < T; ++t) sum += x[threadIdx.y][t] * y[t][threadIdx.x];
                LAST
            }
            if (row < n && column < n) c[row * n + column] = sum;
        }
        extern "C" void run(const float* a, const float* b, float* c, int n) {
            dim3 grid((n + T - 1) / T, (n + T - 1) / T), block(T, T);
            matmul<<<grid, block>>>(a, b, c, n);
        }
        """.replace("LAST", last_barrier)
    )


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    with Evaluator(cache=tmp_path_factory.mktemp("cache")) as opened:
        yield opened


def look(evaluator: Evaluator, task: Problem, candidate: Candidate) -> Sanitization:
    found = evaluator.sanitize(task, candidate, CONFIG)
    print(task.id, found.model_dump_json(indent=1))
    return found


@pytest.mark.parametrize("size", [128, 127, 2048, 4096])
def test_a_missing_barrier_is_a_race_at_any_size(evaluator: Evaluator, size: int) -> None:
    found = look(evaluator, matmul_problem(size), tiled_matmul(last_barrier=""))
    assert found.convicts is Status.RACE
    assert "matmul" in found.reason
    assert "cuda.cu:" in found.reason


@pytest.mark.parametrize("size", [128, 2048])
def test_the_same_with_its_barrier_is_clean(evaluator: Evaluator, size: int) -> None:
    found = look(evaluator, matmul_problem(size), tiled_matmul(last_barrier="__syncthreads();"))
    assert (found.ran, found.convicts) == (True, None), found
    assert [label.split()[0] for label in found.tools] == ["memcheck", "racecheck", "synccheck", "initcheck"]


@pytest.mark.parametrize("size", [1000, 1 << 22])
@pytest.mark.parametrize(
    "access", ["if (x[n] == 0.12345f) y[0] = 1", "if (x[-1] == 0.12345f) y[0] = 1", "y[n] = 0"]
)
def test_one_element_out_of_bounds_is_a_memory_error(evaluator: Evaluator, access: str, size: int) -> None:
    body = """
        __global__ void scale(const float* x, float* y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[i] * 2;
            if (i == 0) { ACCESS; }
        }
        extern "C" void run(const float* x, const float*, float* y, int n) {
            scale<<<(n + 255) / 256, 256>>>(x, y, n);
        }
    """.replace("ACCESS", access)
    task = problem("scale", "inputs[0] * 2", "torch.rand(N)", size)
    found = look(evaluator, task, extension(body))
    assert found.convicts is Status.MEMORY_ERROR
    assert "scale" in found.reason


def test_a_shared_memory_sum_without_barriers_is_a_race(evaluator: Evaluator) -> None:
    body = """
        __global__ void row_sum(const float* x, float* y, int n) {
            __shared__ float part[256];
            float sum = 0;
            for (int i = threadIdx.x; i < n; i += 256) sum += x[blockIdx.x * n + i];
            part[threadIdx.x] = sum;
            for (int half = 128; half > 0; half /= 2)
                if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
            if (threadIdx.x == 0) y[blockIdx.x] = part[0];
        }
        extern "C" void run(const float* x, const float*, float* y, int n) { row_sum<<<64, 256>>>(x, y, n); }
    """
    task = problem("row_sum", "inputs[0].sum(-1)", "torch.rand(64, N)", 1024)
    found = look(evaluator, task, extension(body, "torch.empty(64, device='cuda')"))
    assert found.convicts is Status.RACE


HONEST = {
    "warp_shuffle_softmax": (
        problem("softmax", "torch.softmax(inputs[0], -1)", "torch.randn(512, N)", 1000),
        extension(
            """
            __device__ float warp_max(float v) {
                for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, s));
                return v;
            }
            __device__ float warp_sum(float v) {
                for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(~0u, v, s);
                return v;
            }
            __global__ void softmax(const float* x, float* y, int n) {
                const float* row = x + blockIdx.x * n;
                float peak = -1e30f, sum = 0;
                for (int i = threadIdx.x; i < n; i += 32) peak = fmaxf(peak, row[i]);
                peak = warp_max(peak);
                for (int i = threadIdx.x; i < n; i += 32) sum += expf(row[i] - peak);
                sum = warp_sum(sum);
                float* out = y + blockIdx.x * n;
                for (int i = threadIdx.x; i < n; i += 32) out[i] = expf(row[i] - peak) / sum;
            }
            extern "C" void run(const float* x, const float*, float* y, int n) {
                softmax<<<512, 32>>>(x, y, n);
            }
            """
        ),
    ),
    "atomic_row_sums": (
        problem("row_sum", "inputs[0].sum(-1)", "torch.rand(64, N)", 4099),
        extension(
            """
            __global__ void row_sum(const float* x, float* y, int n) {
                __shared__ float total;
                if (threadIdx.x == 0) total = 0;
                __syncthreads();
                float sum = 0;
                for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
                    sum += x[blockIdx.y * n + i];
                atomicAdd(&total, sum);
                __syncthreads();
                if (threadIdx.x == 0) atomicAdd(y + blockIdx.y, total);
            }
            extern "C" void run(const float* x, const float*, float* y, int n) {
                cudaMemsetAsync(y, 0, 64 * sizeof(float));
                row_sum<<<dim3(4, 64), 256>>>(x, y, n);
            }
            """,
            "torch.empty(64, device='cuda')",
        ),
    ),
    "early_return_before_barrier_free_code": (
        problem("scale", "inputs[0] * 2", "torch.rand(N)", 100003),
        extension(
            """
            __global__ void scale(const float* x, float* y, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i >= n) return;
                y[i] = x[i] * 2;
            }
            extern "C" void run(const float* x, const float*, float* y, int n) {
                scale<<<(n + 255) / 256, 256>>>(x, y, n);
            }
            """
        ),
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_are_clean(evaluator: Evaluator, name: str) -> None:
    found = look(evaluator, *HONEST[name])
    assert (found.ran, found.convicts) == (True, None), found


def test_a_kernel_beside_cublas_is_clean(evaluator: Evaluator) -> None:
    """Faults of library kernels are nobody's: older cuBLAS kernels race by racecheck's rules."""
    body = """
        __global__ void relu(const float* x, float* y, int n) {
            x += blockIdx.x * n, y += blockIdx.x * n;
            for (int i = threadIdx.x; i < n; i += 256) y[i] = fmaxf(x[i], 0);
        }
        extern "C" void run(const float* x, const float*, float* y, int n) { relu<<<n, 256>>>(x, y, n); }
    """
    product = Candidate(
        source=extension(body).source.replace(
            "out = torch", "inputs[0] = inputs[0] @ inputs[1]; out = torch"
        ),
        backend="cuda",
    )
    task = problem(
        "matmul_relu", "torch.relu(inputs[0] @ inputs[1])", "torch.randn(N, N), torch.randn(N, N)", 512
    )
    found = look(evaluator, task, product)
    assert (found.ran, found.convicts) == (True, None), found


def test_a_wrapper_of_cublas_needs_no_tool(evaluator: Evaluator) -> None:
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b): return a @ b\n"
    found = look(evaluator, matmul_problem(512), Candidate(source=source, backend="cuda"))
    assert (found.needed, found.convicts, found.settled) == (False, None, True)


def test_a_read_of_memory_nobody_wrote_is_remarked(evaluator: Evaluator) -> None:
    body = """
        __global__ void scale(const float* x, float* y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = y[i] == 0.12345f ? 0 : x[i] * 2;
        }
        extern "C" void run(const float* x, const float*, float* y, int n) {
            scale<<<(n + 255) / 256, 256>>>(x, y, n);
        }
    """
    found = look(evaluator, problem("scale", "inputs[0] * 2", "torch.rand(N)", 1000), extension(body))
    assert (found.ran, found.convicts) == (True, None)
    assert any("Uninitialized" in text for text in found.findings)


def test_an_evaluation_ends_in_the_race(evaluator: Evaluator) -> None:
    config = EvaluationConfig(trials=2, baselines=("eager",), sanitize=Sanitize.AUTO)
    evaluation = evaluator.evaluate(matmul_problem(128), tiled_matmul(last_barrier=""), config)
    print(evaluation.model_dump_json(indent=1))
    assert evaluation.status in (Status.RACE, Status.NONDETERMINISTIC, Status.WRONG_VALUES)
    if evaluation.status is Status.RACE:
        assert evaluation.stage is Stage.SANITIZE


def test_the_tool_is_found_here(evaluator: Evaluator) -> None:
    from kernelwright.evaluator.analysis.sanitizers import find_sanitizers

    assert isinstance(find_sanitizers(None).compute, Path)
