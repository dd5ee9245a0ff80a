"""Registers, shared memory and stack of a built library's kernels, read from the CUDA images nvcc embeds.

Advice only: a compressed or unknown image gives nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernelwright.evaluator.analysis import elf_image, policy
from kernelwright.evaluator.schema.kernel_resources import KernelResources

_CUDA: Final = 190
"""ELF's number of NVIDIA's machine."""
_SIZED: Final = 4
"""Format of an attribute whose size precedes its value."""
_REGISTERS: Final = 0x2F
_FRAME: Final = 0x11


def read_resources(library: Path) -> tuple[KernelResources, ...]:
    """Resources of a library's kernels, by name; none where there is nothing to read."""
    try:
        if library.stat().st_size > policy.MAX_LIBRARY_BYTES:
            return ()
        data = library.read_bytes()
    except OSError:
        return ()
    found: dict[str, KernelResources] = {}
    for start in _images(data):
        try:
            for kernel in _kernels(data, start):
                found.setdefault(kernel.kernel, kernel)
        except elf_image.MALFORMED:
            continue
    return tuple(found[name] for name in sorted(found)[: policy.MAX_KERNELS])


def _images(data: bytes) -> Iterator[int]:
    start = data.find(elf_image.MAGIC)
    for _ in range(policy.MAX_IMAGES):
        if start < 0 or start + 20 > len(data):
            return
        if struct.unpack_from("<H", data, start + 18) == (_CUDA,):
            yield start
        start = data.find(elf_image.MAGIC, start + 1)


def _kernels(data: bytes, start: int) -> Iterator[KernelResources]:
    sections = {section.name: section for section in elf_image.read_sections(data, start)}
    frames = _attributes(data, sections, _FRAME)
    for name, registers in _attributes(data, sections, _REGISTERS).items():
        shared = sections.get(f".nv.shared.{name}")
        yield KernelResources(
            kernel=name,
            registers=registers,
            shared_bytes=shared.size if shared else 0,
            stack_bytes=frames.get(name, 0),
        )


def _attributes(data: bytes, sections: dict[str, elf_image.Section], wanted: int) -> dict[str, int]:
    info, symbols, names = (sections[name] for name in (".nv.info", ".symtab", ".strtab"))
    found: dict[str, int] = {}
    at, end = info.offset, info.offset + min(info.size, policy.MAX_ATTRIBUTE_BYTES)
    while at + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        if form == _SIZED and attribute == wanted and size >= 8:
            index, value = struct.unpack_from("<II", data, at + 4)
            (name,) = struct.unpack_from("<I", data, symbols.offset + index * elf_image.SYMBOL_BYTES)
            found[elf_image.read_name(data, names.offset + name)] = value
        at += 4 + (size if form == _SIZED else 0)
    return {name: value for name, value in found.items() if f".text.{name}" in sections}
