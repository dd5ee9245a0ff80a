"""Time from the release of queued calls to their end, beyond what the calls take on the device.

    python tests/benchmarks/release_latency.py

The calls of one process wait on its current stream for a word that another process writes, as timed calls
wait for their inputs. Each call is split over so many streams that wait for the current one. Needs a GPU.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from statistics import median
from typing import Any

import torch

from kernelwright.evaluator.devices.cuda import CudaDevice

ELEMENTS = 1 << 22
ROUNDS = 40
STREAMS = (0, 1, 2, 4)
CALLS = 20


def _calls(streams: list[torch.cuda.Stream], given: torch.Tensor, out: torch.Tensor) -> None:
    current = torch.cuda.current_stream()
    if not streams:
        torch.mul(given, 2.0, out=out)
        return
    forked = current.record_event()
    for stream, part, written in zip(
        streams, given.chunk(len(streams)), out.chunk(len(streams)), strict=True
    ):
        stream.wait_event(forked)
        with torch.cuda.stream(stream):
            torch.mul(part, 2.0, out=written)
        current.wait_event(stream.record_event())


def _queue(pipe: Connection, descriptor: dict[str, Any], files: list[Any], streams: int) -> None:
    """Queue calls behind the word, round by round; say so, then say what they took."""
    device = CudaDevice("cuda:0")
    word = device.attach(descriptor, [file.detach() for file in files]).data[:4].view(torch.int32)
    given = torch.randn(ELEMENTS, device="cuda")
    out, beside = torch.empty_like(given), [torch.cuda.Stream() for _ in range(streams)]
    _calls(beside, given, out)
    for ticket in range(1, ROUNDS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        assert device.waits_for(word, ticket), "the device waits for no word"
        begin.record()
        for _ in range(CALLS):
            _calls(beside, given, out)
        end.record()
        pipe.send("queued")
        torch.cuda.synchronize()
        pipe.send(begin.elapsed_time(end))


def latency_ms(device: CudaDevice, streams: int, *, on_host: bool) -> tuple[float, float]:
    """Return the median time of the calls, and the median time on top."""
    block = device.allocate_word() if on_host else device.allocate(4)
    word = block.data[:4].view(torch.int32)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    files = [DupFd(fd) for fd in block.fds()]
    process = spawn.Process(target=_queue, args=(theirs, block.descriptor(), files, streams), daemon=True)
    process.start()
    took, on_top = [], []
    for ticket in range(1, ROUNDS + 1):
        ours.recv()
        time.sleep(0.001)
        started = time.perf_counter_ns()
        word.fill_(ticket)
        took.append(ours.recv())
        on_top.append((time.perf_counter_ns() - started) / 1e6 - took[-1])
    process.join()
    del word
    block.close()
    return median(took), median(on_top)


def main() -> None:
    """Print a line for each number of streams."""
    device = CudaDevice("cuda:0")
    print(f"{torch.cuda.get_device_name()}: ms of {CALLS} calls, and on top until the process has answered")
    print("streams  word of the device     word of the host")
    for streams in STREAMS:
        shown = [latency_ms(device, streams, on_host=on_host) for on_host in (False, True)]
        print(f"{streams:7}" + "".join(f"{took:10.3f} + {on_top:6.3f}" for took, on_top in shown), flush=True)


if __name__ == "__main__":
    main()
