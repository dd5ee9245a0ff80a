"""Memory between guard pages: where a tensor lies in it, what faults, and when it goes."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal

import pytest
import torch

from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.devices.guarded_block import Edge, GuardedBlock

EDGES = ("end", "beginning")


def _block(size: int, edge: Edge) -> tuple[GuardedBlock, int]:
    block = open_device("cpu").guarded(size, edge)
    assert block is not None
    assert block.data is not None
    return block, block.data.data_ptr()


def _signal_of_reading(address: int) -> int:
    """The signal that ends a process which reads a byte."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        ctypes.c_ubyte.from_address(address).value  # noqa: B018  (read for its effect)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("size", [64, 4096, 1 << 20])
def test_access_beyond_the_chosen_edge_is_a_fault(edge: Edge, size: int) -> None:
    block, address = _block(size, edge)
    outside = {"end": address + size, "beginning": address - 1}
    assert _signal_of_reading(outside.pop(edge)) == -signal.SIGSEGV
    assert _signal_of_reading(outside.popitem()[1]) == 0
    assert _signal_of_reading(address) == 0
    block.unmap_unused()


@pytest.mark.parametrize("size", [1, 4, 1001, 4004, 70_000])
def test_alignment_is_what_torch_gives_and_leaves_less_than_itself_behind(size: int) -> None:
    block, address = _block(size, "end")
    assert address % 64 == 0
    assert block.behind.numel() < 64
    assert _signal_of_reading(address + size + 63) == -signal.SIGSEGV
    block.unmap_unused()


@pytest.mark.parametrize("size", [1, 4, 1001, 4004, 70_000])
def test_an_exact_end_faults_with_the_next_byte_and_the_same_address_inside_does_not(size: int) -> None:
    (exact, end), (inside, other) = _block(size, "exact"), _block(size, "inside")
    assert end % 64 == other % 64
    assert _signal_of_reading(end + size) == -signal.SIGSEGV
    assert _signal_of_reading(other + size) == 0
    exact.unmap_unused()
    inside.unmap_unused()


def test_fresh_memory_holds_the_pattern() -> None:
    block, _ = _block(400, "end")
    assert block.data is not None
    assert torch.isnan(block.data.view(torch.float32)).all()
    assert block.written() == ""
    block.unmap_unused()


@pytest.mark.parametrize(("edge", "offset", "side"), [
    ("end", -1, "before the beginning"), ("end", 1001, "beyond the end"),
    ("beginning", 1001, "beyond the end"), ("beginning", 2000, "beyond the end"),
])  # fmt: skip
def test_write_into_the_rest_of_the_pages_is_seen(edge: Edge, offset: int, side: str) -> None:
    block, address = _block(1001, edge)
    ctypes.c_ubyte.from_address(address + offset).value = 7
    assert block.written() == side
    block.unmap_unused()


def test_pages_stay_while_a_tensor_lies_in_them() -> None:
    block, address = _block(400, "end")
    assert block.data is not None
    kept = block.data.view(torch.float32)[:10].fill_(3)
    block.unmap_unused()
    assert kept.sum() == 30
    del kept
    gc.collect()
    block.unmap_unused()
    assert _signal_of_reading(address) == -signal.SIGSEGV


def test_more_than_the_machine_has_is_none() -> None:
    assert open_device("cpu").guarded(1 << 62, "end") is None
