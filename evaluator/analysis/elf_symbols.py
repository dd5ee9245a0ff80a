"""Names that built libraries define and use, read from their symbol tables and constant texts."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernelwright.evaluator.analysis import elf_image, policy
from kernelwright.evaluator.analysis.sanitizer_words import TOOLS
from kernelwright.evaluator.schema.record import Record

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
    rf"_ZN2at(?:4_ops)?\d+(?:{_HEAVY})(?=\d|E)|^(?:__libc_)?dl(?:m?open(?:_mode)?|v?sym)$"
)
"""The last ones call whatever they are told to."""
_WATCHED: Final = re.compile(rf"^(?:__(?:{TOOLS})_\w+|dl_iterate_phdr)$")


class Symbols(Record):
    """Names of all libraries built for one candidate."""

    libraries: int = 0
    defines: tuple[str, ...] = ()
    """Functions and kernels, mangled where the compiler mangles."""
    uses: tuple[str, ...] = ()
    """Functions of computing libraries that are called or named, and of the dynamic loader."""
    watched: tuple[str, ...] = ()
    """Functions of sanitizers that are called: code behaves otherwise where there is one."""


def read_symbols(folder: Path) -> Symbols:
    """Symbols of the shared objects in a folder; an unreadable one defines nothing."""
    defines: dict[str, None] = {}
    uses: dict[str, None] = {}
    watched: set[str] = set()
    libraries = sorted(folder.glob("*.so"))
    for library in libraries:
        if library.stat().st_size > policy.MAX_LIBRARY_BYTES:
            continue
        data = library.read_bytes()
        try:
            defined, undefined, strings = _read(data, elf_image.read_sections(data))
        except elf_image.MALFORMED:
            continue
        defines.update(dict.fromkeys(name[: policy.MAX_NAME_CHARACTERS] for name in defined))
        watched.update(filter(_WATCHED.search, undefined))
        for text in (*undefined, *strings):
            uses.update(dict.fromkeys(match[0] for match in _LIBRARIES.finditer(text)))
    return Symbols(
        libraries=len(libraries),
        defines=tuple(defines)[: policy.MAX_NAMES],
        uses=tuple(uses)[: policy.MAX_NAMES],
        watched=tuple(sorted(watched))[: policy.MAX_NAMES],
    )


def defined_functions(library: Path) -> frozenset[str] | None:
    """Mangled names of a library's functions, static ones included; None if it was stripped of them."""
    data = library.read_bytes()
    try:
        sections = elf_image.read_sections(data)
        if not any(section.kind == _SYMTAB for section in sections):
            return None
        return frozenset(_read(data, sections)[0])
    except elf_image.MALFORMED:
        return None


def _read(data: bytes, sections: list[elf_image.Section]) -> tuple[set[str], set[str], set[str]]:
    defined: set[str] = set()
    undefined: set[str] = set()
    tables = [section for section in sections if section.kind in (_SYMTAB, _DYNSYM)]
    for table in tables[: policy.MAX_SYMBOL_TABLES]:
        if table.link < len(sections):
            for name, is_function, is_defined in _symbols(data, table, sections[table.link].offset):
                if is_defined and is_function:
                    defined.add(name)
                elif not is_defined:
                    undefined.add(name)
    constants = next((section for section in sections if section.name == ".rodata"), None)
    texts = b""
    if constants is not None:
        texts = data[constants.offset : constants.offset + min(constants.size, policy.MAX_CONSTANT_BYTES)]
    # Kernels are registered with the CUDA runtime by their mangled names.
    defined.update(match[0].decode() for match in _MANGLED.finditer(texts))
    return defined, undefined, {match[0].decode() for match in re.finditer(rb"aten::\w+", texts)}


def _symbols(data: bytes, table: elf_image.Section, strings: int) -> Iterator[tuple[str, bool, bool]]:
    step = elf_image.SYMBOL_BYTES
    end = table.offset + min(table.size, step * policy.MAX_SYMBOLS) - step + 1
    for position in range(table.offset, end, step):
        name, info, _, section = struct.unpack_from("<IBBH", data, position)
        if text := elf_image.read_name(data, strings + name):
            yield text, info & 15 == _FUNCTION, section != 0
