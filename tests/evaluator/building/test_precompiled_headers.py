"""Precompiled lean headers under g++ and clang, which find them, and refuse them, each in its own way."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.evaluator.building.build_cache import CacheEntry
from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.sandboxed_build import Compiled, _searching
from kernelwright.evaluator.building.toolchain import Toolchain, find_toolchain
from kernelwright.evaluator.sandbox import Launcher, strongest

CLANG = next(filter(None, map(shutil.which, ("clang++", *(f"clang++-{n}" for n in range(21, 13, -1))))), None)
SOURCE = """
#ifdef ADDED
int64_t f(torch::Tensor x) { return x.numel() + ADDED; }
#else
int64_t f(torch::Tensor x) { return x.numel(); }
#endif
"""


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return find_toolchain()


def _named(toolchain: Toolchain, identity: str) -> Toolchain:
    return replace(toolchain, cxx=replace(toolchain.cxx, identity=identity))


@pytest.mark.parametrize(
    ("identity", "told"), [("g++: 12.2", "torch/extension.h"), ("c++: clang 19.1", "/pch/torch/extension.h")]
)
def test_clang_is_told_where_the_precompiled_header_lies(
    toolchain: Toolchain, identity: str, told: str
) -> None:
    toolchain = _named(toolchain, identity)
    command = (str(toolchain.cxx.path), "-include", "torch/extension.h", "-include", "name.h", "-c", "x.cpp")
    assert _searching(command, Path("/pch"), toolchain) == (
        command[0],
        *("-isystem", "/pch", "-include", told, "-include", "name.h", "-c", "x.cpp"),
    )
    assert _searching(command, None, toolchain) == command
    assert _searching(("nvcc", *command[1:]), Path("/pch"), toolchain) == ("nvcc", *command[1:])


@pytest.mark.parametrize(
    ("log", "rejects"),
    [
        ("error: ISO C++ was enabled in AST file 'x.gch' but is currently disabled", True),
        ("error: macro 'A' was defined in the precompiled header but undef'd on the command line", True),
        ("main.cpp:3:11: error: use of undeclared identifier 'undeclared'", False),
    ],
)
def test_what_clang_says_of_a_header_that_does_not_fit_is_no_fault_of_the_source(
    log: str, rejects: bool
) -> None:
    assert Compiled(CacheEntry(ok=False, log=log)).rejects_precompiled == rejects
    assert not Compiled(CacheEntry(ok=True, log=log)).rejects_precompiled


@pytest.fixture(scope="module")
def clang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Builder, Path]]:
    """A builder that uses clang, and its cache."""
    if CLANG is None:
        pytest.skip("no clang++ here")
    cache = tmp_path_factory.mktemp("clang")
    with pytest.MonkeyPatch.context() as patch, Launcher() as launcher:
        patch.setenv("CXX", CLANG)
        builder = Builder(cache=cache, launcher=launcher, tier=strongest(None))
        assert builder.prepare()
        assert builder.toolchain.cxx.is_clang
        yield builder, cache


def _build(builder: Builder, name: str, *flags: str) -> BuildOutcome:
    request = BuildRequest.model_validate(
        {"name": name, "cpp_sources": [SOURCE], "functions": {"f": "f"}, "extra_cflags": list(flags)}
    )
    return builder.build(request, architecture=None, timeout_s=300)


def test_clang_builds_with_precompiled_headers_from_the_first_use(clang: tuple[Builder, Path]) -> None:
    builder, cache = clang
    first, second = (_build(builder, name, "-O2") for name in ("first", "second"))
    assert [outcome.build.tier for outcome in (first, second)] == ["lean", "lean"]
    assert all(outcome.build.ok for outcome in (first, second)), first.build.log + second.build.log
    (made,) = cache.glob("toolboxes/*/precompiled/*/torch/extension.h.gch")
    command = (str(builder.toolchain.cxx.path), "-include", "torch/extension.h", "-xc++", __file__, "-###")
    said = subprocess.run(
        _searching(command, made.parents[1], builder.toolchain), capture_output=True, text=True, check=False
    )
    assert f'"-include-pch" "{made}"' in said.stderr


def test_flags_that_clang_refuses_the_header_for_build_without_it(clang: tuple[Builder, Path]) -> None:
    builder, _ = clang
    for flags in (("-O2", "-ansi", "-std=c++20"), ("-O2", "-DADDED=4"), ("-O2", "-UNDEBUG")):
        outcome = _build(builder, "odd", *flags)
        assert outcome.build.ok, outcome.build.log
        assert outcome.build.tier == "lean"
