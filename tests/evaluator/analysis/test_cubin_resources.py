"""What kernels take is read from the bytes of a library, whatever those are."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.evaluator.analysis.cubin_resources import read_resources
from kernelwright.evaluator.schema.kernel_resources import KernelResources

SOURCE = """
__global__ void scale(float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = y[i];
    __syncthreads();
    if (i < n) y[i] = tile[threadIdx.x ^ 1] * 2;
}
template <int N> __global__ void stacked(float* y) {
    float a[N];
    for (int i = 0; i < N; i++) a[i] = y[i * threadIdx.x];
    float sum = 0;
    for (int i = 0; i < N; i++) sum += a[(i * 7 + threadIdx.x) % N];
    y[threadIdx.x] = sum;
}
template __global__ void stacked<300>(float*);
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc here")
    folder = tmp_path_factory.mktemp("resources")
    (folder / "kernels.cu").write_text(SOURCE)
    command = [nvcc, "-arch=sm_80", "-shared", "-Xcompiler", "-fPIC", "-o", "kernels.so", "kernels.cu"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "kernels.so"


def test_registers_shared_memory_and_stack_are_those_that_ptxas_reports(library: Path) -> None:
    scale, stacked = read_resources(library)
    assert (scale.kernel, scale.shared_bytes, scale.stack_bytes) == ("_Z5scalePfi", 1024, 0)
    assert (stacked.kernel, stacked.shared_bytes, stacked.stack_bytes) == ("_Z7stackedILi300EEvPf", 0, 1200)
    assert 0 < scale.registers < stacked.registers < 256


def test_a_library_that_a_candidate_shaped_is_survived(library: Path, tmp_path: Path) -> None:
    data, dice = library.read_bytes(), random.Random(1)
    start = data.rfind(b"\x7fELF")
    broken = tmp_path / "broken.so"
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(20):
            changed[dice.randrange(start, len(changed))] = dice.randrange(256)
        broken.write_bytes(bytes(changed[: dice.randrange(start, len(changed))]))
        assert all(isinstance(kernel, KernelResources) for kernel in read_resources(broken))


def test_what_is_no_library_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    assert read_resources(tmp_path / "text.so") == read_resources(tmp_path / "missing.so") == ()
    dice, stub = random.Random(1), tmp_path / "stub.so"
    for size in range(200):
        stub.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xbe\x00" + dice.randbytes(size))
        assert read_resources(stub) == ()
    stub.write_bytes(b"\x7fELF\x02\x01")
    assert read_resources(stub) == ()
