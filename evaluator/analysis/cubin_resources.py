"""What kernels of a built library take of a multiprocessor, read from the device code inside it.

Read from the bytes, without a tool: sections of the CUDA images that nvcc embeds. Bounded, because candidates
shape them, and advice only. A compressed or unknown image says nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernelwright.evaluator.schema.kernel_resources import KernelResources

_MOST_BYTES: Final = 256 << 20
_MOST_IMAGES: Final = 16
_MOST_SECTIONS: Final = 8192
_MOST_KERNELS: Final = 64
_MOST_ATTRIBUTES: Final = 1 << 20
_MOST_NAME: Final = 400
_ELF: Final = b"\x7fELF\x02\x01"
_CUDA: Final = 190
"""ELF's number of NVIDIA's machine."""
_SIZED: Final = 4
"""Format of an attribute that has its size before its value."""
_REGISTERS: Final = 0x2F
_FRAME: Final = 0x11


def read_resources(library: Path) -> tuple[KernelResources, ...]:
    """The kernels of a library, by name; none where there is nothing to read."""
    try:
        if library.stat().st_size > _MOST_BYTES:
            return ()
        data = library.read_bytes()
    except OSError:
        return ()
    found: dict[str, KernelResources] = {}
    for start in _images(data):
        try:
            for kernel in _kernels(memoryview(data)[start:]):
                found.setdefault(kernel.kernel, kernel)
        except (struct.error, LookupError, ValueError, OverflowError):
            continue
    return tuple(found[name] for name in sorted(found)[:_MOST_KERNELS])


def _images(data: bytes) -> Iterator[int]:
    start = data.find(_ELF)
    for _ in range(_MOST_IMAGES):
        if start < 0 or start + 20 > len(data):
            return
        if struct.unpack_from("<H", data, start + 18) == (_CUDA,):
            yield start
        start = data.find(_ELF, start + 1)


def _kernels(image: memoryview) -> Iterator[KernelResources]:
    (offset,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, offset + number * size)
        for number in range(min(count, _MOST_SECTIONS))
    ]
    texts = headers[names_at][4]
    sections = {_text(image, texts + header[0]): header for header in headers}
    registers = _attributes(image, sections, _REGISTERS)
    frames = _attributes(image, sections, _FRAME)
    for name, taken in registers.items():
        shared = sections.get(f".nv.shared.{name}")
        yield KernelResources(
            kernel=name,
            registers=taken,
            shared_bytes=shared[5] if shared else 0,
            stack_bytes=frames.get(name, 0),
        )


def _attributes(image: memoryview, sections: dict[str, tuple[int, ...]], wanted: int) -> dict[str, int]:
    """An attribute of every kernel: pairs of symbol and value in the section that is about all of them."""
    info, symbols = sections[".nv.info"], sections[".symtab"]
    names = sections[".strtab"][4]
    found: dict[str, int] = {}
    at, end = info[4], info[4] + min(info[5], _MOST_ATTRIBUTES)
    while at + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", image, at)
        if form == _SIZED and attribute == wanted and size >= 8:
            index, value = struct.unpack_from("<II", image, at + 4)
            (name,) = struct.unpack_from("<I", image, symbols[4] + index * 24)
            found[_text(image, names + name)] = value
        at += 4 + (size if form == _SIZED else 0)
    return {name: value for name, value in found.items() if f".text.{name}" in sections}


def _text(image: memoryview, at: int) -> str:
    return bytes(image[at : at + _MOST_NAME]).partition(b"\0")[0].decode("ascii", "replace")
