"""Symbols of built libraries, and of what only claims to be one."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest

from kernelwright.evaluator.analysis.elf_symbols import Symbols, read_symbols

SOURCE = r"""
extern "C" void cblas_sgemm(int);
extern "C" const char* text() { return "aten::matmul"; }
namespace mine { int square(int x) { return x * x; } }
extern "C" void entry() { cblas_sgemm(mine::square(2)); }
extern "C" void* dlsym(void*, const char*);
extern "C" void __asan_init() __attribute__((weak));
extern "C" void* found() { return __asan_init ? nullptr : dlsym(nullptr, "name"); }
extern "C" int not_dlsym_at_all() { return 1; }
const char* registered = "_ZN4mine6kernelEPf";
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("built")
    source = folder / "library.cpp"
    source.write_text(SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / "1-built.so", source], check=True, timeout=120
    )
    return folder


def test_functions_kernels_and_library_calls_are_found(built):
    symbols = read_symbols(built)
    assert symbols.libraries == 1
    assert {"entry", "_ZN4mine6squareEi", "_ZN4mine6kernelEPf"} <= set(symbols.defines)
    assert set(symbols.uses) == {"cblas_sgemm", "aten::matmul", "dlsym"}
    assert symbols.watched == ("__asan_init",)


def test_an_empty_folder_has_none(tmp_path):
    assert read_symbols(tmp_path) == Symbols()


@pytest.mark.parametrize("place", [0x28, 0x3A, 0x3E, 200, 400])
def test_a_broken_library_defines_less_but_raises_nothing(built, tmp_path, place):
    data = bytearray((built / "1-built.so").read_bytes())
    struct.pack_into("<Q", data, place, 2**63 + 12345)
    (tmp_path / "bad.so").write_bytes(data)
    (tmp_path / "cut.so").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.so").write_bytes(b"not a library")
    assert read_symbols(tmp_path).libraries == 3


def test_names_without_an_end_are_not_followed(tmp_path):
    names, strings = b"\0.symtab\0.strtab\0.shstrtab\0", b"\0" + b"A" * (1 << 20)
    symbols = b"".join(struct.pack("<IBBHQQ", name, 18, 0, 1, 0, 0) for name in range(1, 5000))
    parts = [(1, 2, symbols, 2), (9, 3, strings, 0), (17, 3, names, 0)]
    body, rows = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, kind, content, link in parts:
        rows.append(
            struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + len(body), len(content), link, 0, 1, 24)
        )
        body += content
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(rows), 3)
    (tmp_path / "a.so").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + head + body + b"".join(rows))
    assert read_symbols(tmp_path) == Symbols(libraries=1)
