"""A CUDA device: memory of its own `cudaMalloc`, shared by CUDA IPC, events as stopwatch.

torch's caching allocator is not used for shared memory: its IPC handles cover whole segments, which hold
other tensors, and its reference counts depend on the other side.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from kernelwright.evaluator.devices import policy
from kernelwright.evaluator.devices.cpu import sealed_file
from kernelwright.evaluator.devices.cuda_watch import CudaWatch
from kernelwright.evaluator.devices.guarded_block import Edge, GuardedBlock
from kernelwright.evaluator.devices.pinned_block import PinnedBlock

_IPC_LAZY_PEER_ACCESS: Final = 1
_OUT_OF_MEMORY: Final = 2
_AT_LEAST: Final = ctypes.c_uint(0)
_GRANULE: Final = 2 << 20
"""CUDA cuts less than this out of a block of several allocations, and a handle opens the whole block (CUDA
programming guide, interprocess communication): a contestant would see what was never shared with it."""


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * 64),)


@cache
def _runtime() -> ctypes.CDLL:
    """The CUDA runtime torch already loaded into this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.rpartition(" ")[2]
        if "libcudart" in path:
            library = ctypes.CDLL(path)
            library.cudaGetErrorString.restype = ctypes.c_char_p
            return library
    raise RuntimeError("torch has not loaded the CUDA runtime; is this a CPU build of torch?")


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


# Any: arguments of ctypes.
def _call(name: str, *arguments: Any) -> None:
    """Call the runtime; raises RuntimeError where that fails."""
    if code := getattr(_runtime(), name)(*arguments):
        raise _failure(code, name)


def _failure(code: int, action: str) -> RuntimeError:
    _runtime().cudaGetLastError()  # or torch's next call reports it
    return RuntimeError(f"{action} failed: {_runtime().cudaGetErrorString(code).decode()}")


class _Span:
    """A raw device pointer, as `torch.as_tensor` wants to see it."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


class CudaBlock:
    """Device memory two processes see."""

    def __init__(self, pointer: int, size: int, device: torch.device, *, owned: bool) -> None:
        self._pointer = pointer
        self._size = size
        self._owned = owned
        self.data = torch.as_tensor(_Span(pointer, size), device=device)

    @classmethod
    def create(cls, size: int, device: torch.device, *, wait_s: float) -> CudaBlock:
        """New zeroed memory, no part of a larger allocation; raises OutOfMemoryError after `wait_s`."""
        size = -(-size // _GRANULE) * _GRANULE
        pointer = ctypes.c_void_p()
        deadline, has_trimmed = time.monotonic() + wait_s, False
        while code := _runtime().cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)):
            failure = _failure(code, f"allocating {size} bytes on the device")
            if code != _OUT_OF_MEMORY:
                raise failure
            if has_trimmed:
                if time.monotonic() > deadline:
                    raise torch.OutOfMemoryError(f"no {size} bytes to share are free on the device")
                time.sleep(policy.MEMORY_POLL_S)
            # Others come and go, and torch keeps what it freed. Where nothing is short that is left
            # to it: allocations of all processes wait for each other in the driver.
            torch.cuda.empty_cache()
            has_trimmed = True
        block = cls(int(pointer.value or 0), size, device, owned=True)
        block.data.zero_()
        return block

    def part(self, begin: int, size: int) -> torch.Tensor:
        return torch.as_tensor(_Span(self._pointer + begin, size), device=self.data.device)

    def descriptor(self) -> dict[str, Any]:
        handle = _IpcHandle()
        _call("cudaIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(self._pointer))
        return {"kind": "cuda_ipc", "size": self._size, "handle": bytes(handle).hex()}

    def fds(self) -> tuple[int, ...]:
        """None: the handle is plain bytes."""
        return ()

    def close(self) -> None:
        """Free owned memory, which the other side must have closed, or be gone; nothing to do if closed."""
        pointer, self._pointer = ctypes.c_void_p(self._pointer), 0
        if not pointer:
            return
        self.data = self.data.new_empty(0)
        _call("cudaFree" if self._owned else "cudaIpcCloseMemHandle", pointer)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """`CUmemAllocationProp`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """`CUmemAccessDesc`."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class DevicePages:
    """Device memory mapped in the middle of reserved addresses (CUDA driver API, virtual memory)."""

    alignment = policy.GUARD_ALIGNMENT["cuda"]

    def __init__(self, size: int, device: torch.device) -> None:
        """Map pages for `size` bytes; raises RuntimeError where the driver has no memory or no such calls."""
        self._device = device
        here = _Location(1, device.index)  # CU_MEM_LOCATION_TYPE_DEVICE
        properties = _Properties(1, 0, here)  # CU_MEM_ALLOCATION_TYPE_PINNED
        granule, base, memory = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64()
        _ask("cuMemGetAllocationGranularity", ctypes.byref(granule), ctypes.byref(properties), 0)
        self.size = -(-(size + policy.GUARD_SLACK) // granule.value) * granule.value
        self._reserved = self.size + 2 * policy.GUARD_BYTES
        none, length = ctypes.c_uint64(0), ctypes.c_size_t(self.size)
        _ask("cuMemAddressReserve", ctypes.byref(base), ctypes.c_size_t(self._reserved), none, none, none)
        self._base, self._address = base.value, base.value + policy.GUARD_BYTES
        try:
            _ask("cuMemCreate", ctypes.byref(memory), length, ctypes.byref(properties), none)
        except RuntimeError:
            self._free_addresses()
            raise
        span = ctypes.c_uint64(self._address), length
        try:
            _ask("cuMemMap", *span, none, memory, none)
        finally:
            _ask("cuMemRelease", memory)  # it lives as long as it is mapped
        access = _Access(here, 3)  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _ask("cuMemSetAccess", *span, ctypes.byref(access), ctypes.c_size_t(1))

    def part(self, begin: int, size: int) -> tuple[object, torch.Tensor]:
        owner = _Span(self._address + begin, size)
        return owner, torch.as_tensor(owner, device=self._device) if size else torch.empty(0)

    def unmap(self) -> None:
        _ask("cuMemUnmap", ctypes.c_uint64(self._address), ctypes.c_size_t(self.size))
        self._free_addresses()

    def _free_addresses(self) -> None:
        _ask("cuMemAddressFree", ctypes.c_uint64(self._base), ctypes.c_size_t(self._reserved))


# Any: arguments of ctypes.
def _ask(name: str, *arguments: Any) -> None:
    """Call the driver; raises RuntimeError where it refuses, or is too old to know the call."""
    call = getattr(_driver(), name, None)
    code = call(*arguments) if call is not None else -1
    if code:
        raise RuntimeError(f"{name} failed: {code}")


class CudaStopwatch:
    """A pair of CUDA events on the current stream."""

    def __init__(self) -> None:
        self._start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
        self._stop = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's

    def start(self) -> None:
        self._start.record()

    def stop(self) -> None:
        self._stop.record()

    def elapsed_ms(self) -> float:
        """Device time between the events; waits for the second."""
        self._stop.synchronize()
        return float(self._start.elapsed_time(self._stop))


class CudaDevice:
    """One GPU."""

    def __init__(self, name: str) -> None:
        """Make its context; raises torch.OutOfMemoryError where its memory is full for half a minute."""
        device = torch.device(name)
        self.torch_device = torch.device("cuda", device.index or 0)
        _enter(self.torch_device)
        self._flush: torch.Tensor | None = None
        self._noise: torch.Tensor | None = None
        self._side: torch.cuda.Stream | None = None
        self._aside: tuple[torch.cuda.Stream, torch.Tensor] | None = None
        self._watch: CudaWatch | None = None

    def allocate(self, size: int, wait_s: float = policy.MEMORY_WAIT_S) -> CudaBlock:
        self.trim(above=policy.UNUSED_BYTES)
        return CudaBlock.create(max(size, 1), self.torch_device, wait_s=wait_s)

    def allocate_word(self) -> PinnedBlock | CudaBlock:
        with contextlib.suppress(RuntimeError):
            return PinnedBlock(sealed_file(mmap.PAGESIZE), mmap.PAGESIZE, _call)
        return self.allocate(mmap.PAGESIZE, 0.0)

    def attach(self, descriptor: dict[str, Any], fds: list[int]) -> PinnedBlock | CudaBlock:
        if descriptor["kind"] == "memfd":
            return PinnedBlock(fds[0], int(descriptor["size"]), _call)
        handle = _IpcHandle.from_buffer_copy(bytes.fromhex(descriptor["handle"]))
        pointer = ctypes.c_void_p()
        lazily = ctypes.c_uint(_IPC_LAZY_PEER_ACCESS)
        _call("cudaIpcOpenMemHandle", ctypes.byref(pointer), handle, lazily)
        return CudaBlock(int(pointer.value or 0), int(descriptor["size"]), self.torch_device, owned=False)

    def guarded(self, size: int, edge: Edge) -> GuardedBlock | None:
        try:
            return GuardedBlock.cut(DevicePages(size, self.torch_device), size, edge)
        except RuntimeError:
            return None

    def synchronize(self) -> None:
        """`cudaDeviceSynchronize`: every stream of this process, a watch's too."""
        torch.cuda.synchronize(self.torch_device)

    def finish(self) -> None:
        """`cudaStreamSynchronize`."""
        torch.cuda.current_stream(self.torch_device).synchronize()

    def waits_for(self, word: torch.Tensor, value: int) -> bool:
        """Queue a wait on the current stream (CUDA driver API, stream memory operations)."""
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.torch_device).cuda_stream)
        wait = getattr(_driver(), "cuStreamWaitValue32_v2", None)
        address = ctypes.c_uint64(word.data_ptr())
        return wait is not None and wait(stream, address, ctypes.c_uint32(value), _AT_LEAST) == 0

    def write_noise(self, places: list[tuple[int, int]]) -> None:
        """Let a copy engine write, on a stream that waits for no other: multiprocessors are being watched."""
        if self._aside is None:
            noise = torch.frombuffer(bytearray(os.urandom(policy.NOISE_BYTES)), dtype=torch.uint8)
            self._aside = torch.cuda.Stream(self.torch_device), noise.pin_memory()  # type: ignore[no-untyped-call]  # torch's
        stream, noise = self._aside
        source, queue = ctypes.c_void_p(noise.data_ptr()), ctypes.c_void_p(stream.cuda_stream)
        kind = ctypes.c_int(1)  # cudaMemcpyHostToDevice
        for address, size in places:
            _call("cudaMemcpyAsync", ctypes.c_void_p(address), source, ctypes.c_size_t(size), kind, queue)
        stream.synchronize()

    def timer(self) -> CudaStopwatch:
        return CudaStopwatch()

    def watch(self) -> CudaWatch:
        if self._watch is None:
            self._watch = CudaWatch(_driver(), self.torch_device)
        return self._watch

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.torch_device)[0] + self._unused_bytes()

    def total_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(self.torch_device).total_memory)

    def trim(self, *, above: int = 0) -> None:
        if self._unused_bytes() > above:
            torch.cuda.empty_cache()

    def _unused_bytes(self) -> int:
        """Freed memory that torch's allocator keeps."""
        return torch.cuda.memory_reserved(self.torch_device) - torch.cuda.memory_allocated(self.torch_device)

    def stain(self) -> None:
        """Run kernels of torch's that work on NaN in shared memory, on every multiprocessor."""
        cores = torch.cuda.get_device_properties(self.torch_device).multi_processor_count
        shape = (policy.STAINED_ROWS * cores, policy.STAINED_COLUMNS)
        stains = torch.full(shape, float("nan"), dtype=torch.float32, device=self.torch_device)
        # A candidate may forbid what has no deterministic implementation, and much else.
        with contextlib.suppress(RuntimeError):
            for work in (torch.sort, torch.sum, torch.softmax):
                work(stains, dim=-1)

    def disturb(self, kind: int) -> None:
        """Queue kernels of torch's on a stream of high priority, of fewer or more blocks."""
        cores = torch.cuda.get_device_properties(self.torch_device).multi_processor_count
        share = policy.DISTURBANCES[kind % len(policy.DISTURBANCES)]
        if kind % 2:
            self.flush_cache()
        if self._noise is None:
            shape = (int(max(policy.DISTURBANCES) * cores), policy.DISTURBING_COLUMNS)
            self._noise = torch.ones(shape, device=self.torch_device)
            self._side = torch.cuda.Stream(self.torch_device, priority=-1)  # type: ignore[no-untyped-call]  # torch's
            self.synchronize()
        with contextlib.suppress(RuntimeError), torch.cuda.stream(self._side):
            for _ in range(2):
                torch.softmax(self._noise[: int(share * cores)], dim=-1)

    def flush_cache(self) -> None:
        """Overwrite more memory than L2 holds."""
        if self._flush is None:
            size = torch.cuda.get_device_properties(self.torch_device).L2_cache_size
            self._flush = torch.empty(
                policy.FLUSH_FACTOR * max(size, 8 << 20), dtype=torch.uint8, device=self.torch_device
            )
        self._flush.zero_()


def _enter(device: torch.device) -> None:
    """Make a device current; others' processes may leave no room for a context for a while."""
    deadline = time.monotonic() + policy.MEMORY_WAIT_S
    while True:
        try:
            torch.cuda.set_device(device)
            torch.zeros(1, device=device)
            return
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise torch.OutOfMemoryError(f"no room for a context: {error}") from error
        time.sleep(policy.MEMORY_POLL_S)
