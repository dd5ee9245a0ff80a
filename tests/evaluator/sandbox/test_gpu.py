"""Sandboxes on a GPU: devices pass, CUDA IPC works between two of them, debuggers run when nested."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.evaluator.sandbox import Bind, SandboxedProcess, SandboxPolicy

if TYPE_CHECKING:
    from conftest import Inside

pytestmark = pytest.mark.gpu

NODES = ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
DEVICES = tuple(path for name in NODES if (path := Path("/dev") / name).exists())
ENVIRONMENT = {"PATH": "/usr/local/cuda/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}

IPC = """
import ctypes, os, socket, sys, torch
# CUDA refuses a handle whose maker has the opener's process id, and each sandbox counts from 1.
if sys.argv[1] == "export" and (child := os.fork()):
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
runtime = ctypes.CDLL(None)
torch.cuda.init()
torch.zeros(1, device="cuda")
for library in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
    try:
        runtime = ctypes.CDLL(library)
        break
    except OSError:
        pass
channel = socket.socket(fileno=int(sys.argv[2]))
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 64)]
def check(code):
    if code:
        raise RuntimeError(f"cuda error {code}")
class Block:
    def __init__(self, address):
        self.__cuda_array_interface__ = {
            "shape": (1024,), "typestr": "<f4", "data": (address, False), "version": 3
        }
address = ctypes.c_void_p()
if sys.argv[1] == "export":
    check(runtime.cudaMalloc(ctypes.byref(address), 4096))
    block = torch.as_tensor(Block(address.value), device="cuda")
    block.fill_(3.0)
    torch.cuda.synchronize()
    handle = Handle()
    check(runtime.cudaIpcGetMemHandle(ctypes.byref(handle), address))
    channel.sendall(bytes(handle))
    channel.recv(1)
    torch.cuda.synchronize()
    print(block.sum().item())
else:
    handle = Handle.from_buffer_copy(channel.recv(64))
    check(runtime.cudaIpcOpenMemHandle(ctypes.byref(address), handle, 1))
    block = torch.as_tensor(Block(address.value), device="cuda")
    print(block.sum().item())
    block.mul_(2)
    torch.cuda.synchronize()
    channel.sendall(b"x")
    channel.recv(1)
"""


@pytest.fixture
def gpu_policy(inside: Inside) -> SandboxPolicy:
    if not DEVICES:
        pytest.skip("no NVIDIA device nodes")
    return replace(
        inside.policy,
        devices=DEVICES,
        memory_bytes=32 << 30,
        processes=512,
        file_bytes=1 << 30,
        scratch_bytes=1 << 30,
        environment=ENVIRONMENT,
    )


def finish(running: SandboxedProcess) -> str:
    report = running.wait(300) or running.kill()
    assert report.returncode == 0, (report, running.output())
    return running.output()


def test_a_gpu_can_be_used(inside: Inside, gpu_policy: SandboxPolicy) -> None:
    code = "import torch; a = torch.ones(256, 256, device='cuda'); print((a @ a).sum().item())"
    running = inside.launcher.start((sys.executable, "-I", "-c", code), gpu_policy)
    assert finish(running) == "16777216.0\n"


def test_device_memory_is_shared_between_two_sandboxes(inside: Inside, gpu_policy: SandboxPolicy) -> None:
    ours, theirs = socket.socketpair()
    runs = []
    with ours, theirs:
        for role, end in (("export", ours), ("import", theirs)):
            argv = (sys.executable, "-I", "-c", IPC, role, str(end.fileno()))
            runs.append(inside.launcher.start(argv, gpu_policy, fds=(end.fileno(),)))
    assert [finish(running) for running in runs] == ["6144.0\n", "3072.0\n"]


def test_a_gpu_program_freezes_and_dies(inside: Inside, gpu_policy: SandboxPolicy) -> None:
    code = """
import torch
a = torch.ones(2048, 2048, device="cuda")
print("ready", flush=True)
while True:
    a = a @ a * 0
"""
    running = inside.launcher.start((sys.executable, "-I", "-c", code), gpu_policy)
    assert running.wait(5) is None
    for _ in range(20):
        running.freeze()
        running.thaw()
    running.freeze()
    assert running.kill().signal == 9


def test_compute_sanitizer_runs_when_nested(
    inside: Inside, gpu_policy: SandboxPolicy, tmp_path: Path
) -> None:
    nvcc, sanitizer = shutil.which("nvcc"), shutil.which("compute-sanitizer")
    if nvcc is None or sanitizer is None:
        pytest.skip("no nvcc or compute-sanitizer on PATH")
    source = tmp_path / "overrun.cu"
    source.write_text(
        "__global__ void f(float *x) { x[threadIdx.x + 1024] = 1.0f; }\n"
        "int main() { float *x; cudaMalloc(&x, 4096); f<<<1, 32>>>(x); return cudaDeviceSynchronize(); }\n"
    )
    program = Path("/var/tmp") / f"kernelwright-{os.getpid()}-{tmp_path.name}"
    subprocess.run((nvcc, "-o", program, source), check=True)
    try:
        program.chmod(0o755)
        policy = replace(gpu_policy, nested=True, binds=(Bind(program),))
        running = inside.launcher.start((sanitizer, "--tool", "memcheck", str(program)), policy)
        assert running.wait(120) is not None
        assert "Invalid __global__ write" in running.output()
    finally:
        program.unlink()
