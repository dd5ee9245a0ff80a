"""A CUDA device without a GPU: values in host memory, under the rules of what may meet on which device.

What it knows: an operation takes tensors of one device and generators of the device it draws on. What it does
not: gradients, memory, time, and which operations CUDA lacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda", 0)
_MOVING = ("aten::copy_", "aten::_to_copy")
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
"""These take indices of the CPU too."""
_GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
extern "C" void pretend(int on) {
  constexpr auto kind = c10::DeviceType::CUDA;
  static c10::impl::NoOpDeviceGuardImpl<kind> guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(kind)].store(on ? &guard : nullptr);
}
"""


class OnGpu(torch.Tensor):
    """A tensor that says it is on the device."""

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=GPU,
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    def tolist(self):
        return self.held.tolist()


class _Everywhere(TorchDispatchMode):
    """Sees operations that make tensors out of nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Generator(torch.Generator):
    """A generator that says which device it is for."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls)
        made.kind = torch.device(device).type
        return made

    def manual_seed(self, seed):
        super().manual_seed(seed)
        return self


class _Drawing(TorchFunctionMode):
    """Holds generators to their device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Generator)]
        if isinstance(made, torch.Tensor) and any(one.kind != made.device.type for one in given):
            raise RuntimeError(f"Expected a '{made.device.type}' device type for generator ({func.__name__})")
        return made


def _run(func, args, kwargs):
    """One operation on host memory, if a GPU would do it."""
    name, tensors = func._schema.name, [leaf for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)]
    there = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    here = [tensor for tensor in tensors if not isinstance(tensor, OnGpu)]
    wanted = kwargs.get("device")
    on_gpu = bool(there) if wanted is None else torch.device(wanted).type == "cuda"
    may_meet = name in _MOVING or (name in _INDEXING and isinstance(args[0], OnGpu))
    if there and not may_meet and any(tensor.dim() for tensor in here):
        raise RuntimeError(f"Expected all tensors to be on the same device ({name})")
    if wanted is not None and on_gpu:
        kwargs = kwargs | {"device": torch.device("cpu"), "pin_memory": False}
    known = {id(tensor.held): tensor for tensor in there} | {id(tensor): tensor for tensor in here}

    def lowered(leaf):
        return leaf.held if isinstance(leaf, OnGpu) else leaf

    def lifted(leaf):
        if not torch.is_tensor(leaf):
            return leaf
        return known.get(id(leaf), OnGpu(leaf) if on_gpu else leaf)

    return tree_map(lifted, func(*tree_map(lowered, args), **tree_map(lowered, kwargs)))


@contextlib.contextmanager
def pretended(folder: Path) -> Iterator[torch.device]:
    """While active, `cuda` is a device; `folder` is for what has to be compiled for that."""
    pretend = _guard(folder)
    lifting = torch._C._only_lift_cpu_tensors()
    pretend(1)
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with (
            mock.patch("torch.cuda._lazy_init", lambda: None),
            mock.patch("torch.Generator", _Generator),
            _Everywhere(),
            _Drawing(),
        ):
            yield GPU
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
        torch._C._set_only_lift_cpu_tensors(lifting)
        pretend(0)


def _guard(folder: Path):
    """torch's C++ asks for whoever switches devices, even where there is nothing to switch."""
    root, library = Path(torch.__file__).parent, folder / "guard.so"
    (folder / "guard.cpp").write_text(_GUARD)
    command = ["g++", "-shared", "-fPIC", "-std=c++20", f"-I{root}/include", "guard.cpp", "-o", library]
    subprocess.run([*command, f"-L{root}/lib", "-lc10"], cwd=folder, check=True)
    return ctypes.CDLL(str(library)).pretend
