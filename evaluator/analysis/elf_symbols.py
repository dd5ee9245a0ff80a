"""What built libraries define and use, read from their symbol tables; bounded: candidates shape them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.evaluator.schema.record import Record

_MOST_BYTES: Final = 256 << 20
_MOST_SECTIONS: Final = 4096
_MOST_TABLES: Final = 4
_MOST_SYMBOLS: Final = 100_000
_MOST_CONSTANTS: Final = 64 << 20
_LONGEST_NAME: Final = 4096
_MOST_NAMES: Final = 4000
_MOST_NAME: Final = 200
_SYMTAB: Final = 2
_DYNSYM: Final = 11
_FUNCTION: Final = 2
_MANGLED: Final = re.compile(rb"_Z[A-Za-z0-9_$.]{3,2000}")
_HEAVY: Final = (
    "mm|bmm|addmm|baddbmm|addbmm|matmul|linear|einsum|convolution|conv1d|conv2d|conv3d|softmax|_softmax|log_softmax|"
    "layer_norm|native_layer_norm|batch_norm|native_batch_norm|rms_norm|scaled_dot_product_attention|lstm|gru"
)
_LIBRARIES: Final = re.compile(
    rf"cublas\w+|cudnn\w+|cufft\w+|cusparse\w+|cusolver\w+|cblas_\w+|[sd]gemm_|aten::(?:{_HEAVY})\b|"
    rf"_ZN2at(?:4_ops)?\d+(?:{_HEAVY})(?=\d|E)"
)


class Symbols(Record):
    """Of all libraries built for one candidate."""

    libraries: int = 0
    defines: tuple[str, ...] = ()
    """Functions and kernels, mangled where the compiler mangles."""
    uses: tuple[str, ...] = ()
    """Functions of computing libraries that are called or named."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    name: int
    offset: int
    size: int
    link: int


def read_symbols(folder: Path) -> Symbols:
    """Symbols of the shared objects in a folder; one that cannot be read defines nothing."""
    defines: dict[str, None] = {}
    uses: dict[str, None] = {}
    libraries = sorted(folder.glob("*.so"))
    for library in libraries:
        if library.stat().st_size > _MOST_BYTES:
            continue
        data = library.read_bytes()
        try:
            defined, undefined, strings = _read(data)
        except (struct.error, ValueError, IndexError, OverflowError):
            continue
        defines.update(dict.fromkeys(name[:_MOST_NAME] for name in defined))
        for text in (*undefined, *strings):
            uses.update(dict.fromkeys(match[0] for match in _LIBRARIES.finditer(text)))
    return Symbols(
        libraries=len(libraries), defines=tuple(defines)[:_MOST_NAMES], uses=tuple(uses)[:_MOST_NAMES]
    )


def defined_functions(library: Path) -> frozenset[str] | None:
    """Names of functions in a library, mangled, static ones included; None if it was stripped of them."""
    data = library.read_bytes()
    try:
        if not any(section.kind == _SYMTAB for section in _sections(data)):
            return None
        return frozenset(_read(data)[0])
    except (struct.error, ValueError, IndexError, OverflowError):
        return None


def _read(data: bytes) -> tuple[set[str], set[str], set[str]]:
    """Names of defined functions and registered kernels, names left open, and constant texts."""
    sections = list(_sections(data))
    defined: set[str] = set()
    undefined: set[str] = set()
    for section in [section for section in sections if section.kind in (_SYMTAB, _DYNSYM)][:_MOST_TABLES]:
        if section.link < len(sections):
            for name, is_function, is_defined in _symbols(data, section, sections[section.link]):
                if is_defined and is_function:
                    defined.add(name)
                elif not is_defined:
                    undefined.add(name)
    constants = _constants(data, sections)
    # Kernels are registered with the CUDA runtime by their mangled names.
    defined.update(match[0].decode() for match in _MANGLED.finditer(constants))
    strings = {match[0].decode() for match in re.finditer(rb"aten::\w+", constants)}
    return defined, undefined, strings


def _sections(data: bytes) -> Iterator[_Section]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    for number in range(min(count, _MOST_SECTIONS)):
        name, kind, _, _, offset, size, link = struct.unpack_from(
            "<IIQQQQI", data, table + number * entry_size
        )
        yield _Section(kind, name, offset, size, link)


def _symbols(data: bytes, table: _Section, strings: _Section) -> Iterator[tuple[str, bool, bool]]:
    end = table.offset + min(table.size, 24 * _MOST_SYMBOLS) - 23
    for position in range(table.offset, end, 24):
        name, info, _, section = struct.unpack_from("<IBBH", data, position)
        begin = strings.offset + name
        stop = data.find(b"\0", begin, begin + _LONGEST_NAME)
        if stop > begin:
            yield data[begin:stop].decode("utf-8", "replace"), info & 15 == _FUNCTION, section != 0


def _constants(data: bytes, sections: list[_Section]) -> bytes:
    """The read-only data, where constant texts lie."""
    (index,) = struct.unpack_from("<H", data, 0x3E)
    names = sections[index]
    for section in sections:
        begin = names.offset + section.name
        if data[begin : begin + 8] == b".rodata\0":
            return data[section.offset : section.offset + min(section.size, _MOST_CONSTANTS)]
    return b""
