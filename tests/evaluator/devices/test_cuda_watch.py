"""A watch sees whether another process has the GPU; it needs one."""

import subprocess
import sys
import time

import pytest

from kernelwright.evaluator.devices import Watch, open_device

IDLE = "print('ready')"
WORKING = """
import torch
a = torch.randn(4096, 4096, device="cuda")
torch.tanh(a @ a)
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    a = torch.tanh(a @ a)
"""
WAITING = """
import ctypes, time, torch
word, side = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.cuda.Stream()
torch.cuda.synchronize()
now = torch.cuda.current_stream()
address = ctypes.c_uint64(word.data_ptr())
wait = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2
assert wait(ctypes.c_void_p(now.cuda_stream), address, ctypes.c_uint32(1), 0) == 0
for _ in range(20):
    side.wait_stream(now)
    with torch.cuda.stream(side):
        torch.zeros(1 << 20, device="cuda")
    now.wait_stream(side)
print("ready", flush=True)
time.sleep(600)
"""


def _taken_ms(watch: Watch) -> float:
    began = time.monotonic()
    watch.start()
    watch.wait()
    assert time.monotonic() - began < 1.0, "others' work delays it by a turn on the device"
    time.sleep(0.05)
    return watch.stop()


@pytest.mark.gpu
@pytest.mark.parametrize(("program", "is_seen"), [(IDLE, False), (WAITING, False), (WORKING, True)])
def test_a_process_is_seen_to_work_and_not_to_wait(program, is_seen):
    """Streams that wait for each other behind a gate wait, too."""
    watch = open_device("cuda").watch()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            # The least of a few: others may use this device, too.
            assert (min(_taken_ms(watch) for _ in range(5)) > 0.0) == is_seen
        finally:
            other.kill()


@pytest.mark.gpu
def test_a_watch_that_nobody_stopped_is_preemptible_to_the_next():
    watch = open_device("cuda").watch()
    watch.start()
    assert _taken_ms(watch) >= 0.0
