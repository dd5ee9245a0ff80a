"""What a contestant says of an exception: compilers of kernel languages are told from everything else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.evaluator.backends.registry import export_backends
from kernelwright.evaluator.contestant.exceptions import CompilerPatterns, failure


@pytest.fixture
def patterns(tmp_path: Path) -> CompilerPatterns:
    """The patterns as a contestant reads them from the image that the driver wrote."""
    export_backends(tmp_path)
    return CompilerPatterns.read(tmp_path / "backends.json")


def raised_in(*files: str, text: str = "no", cause: BaseException | None = None) -> Exception:
    """An exception whose frames lie in these files, outermost first."""
    program = "if inner is None:\n    raise RuntimeError(text) from cause\ninner()\n"
    inner: Callable[[], None] | None = None
    for file in reversed(files):
        names = {"inner": inner, "text": text, "cause": cause}
        inner = functools.partial(exec, compile(program, file, "exec"), names)
    assert inner is not None
    try:
        inner()
    except RuntimeError as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "files",
    [
        ("/tmp/candidate.py", "/usr/lib/python3/site-packages/triton/compiler/code_generator.py"),
        ("/tmp/candidate.py", "/v/triton/runtime/jit.py", "/v/triton/backends/nvidia/compiler.py"),
        ("/tmp/candidate.py", "/v/tilelang/cache/kernel_cache.py", "/v/tilelang/contrib/nvcc.py"),
        ("/tmp/candidate.py", "/v/tilelang/language/eager/builder.py", "/tmp/candidate.py"),
        ("/tmp/candidate.py", "/v/dsl_packages/cutlass/base_dsl/compiler.py"),
    ],
)
def test_an_exception_out_of_a_compiler_is_told(files: tuple[str, ...], patterns: CompilerPatterns) -> None:
    assert failure(raised_in(*files), patterns).compiling is True
    outer = raised_in("/tmp/candidate.py", cause=raised_in(*files))
    assert failure(outer, patterns).compiling is True


@pytest.mark.parametrize(
    "files",
    [
        ("/tmp/candidate.py",),
        ("/tmp/candidate.py", "/v/triton/runtime/jit.py"),
        ("/tmp/candidate.py", "/v/triton/compiler/compiler.py", "/v/triton/backends/nvidia/driver.py"),
        ("/tmp/candidate.py", "/v/tilelang/jit/kernel.py", "/v/tilelang/jit/adapter/tvm_ffi.py"),
        ("/tmp/candidate.py", "/v/cutlass/base_dsl/dsl.py", "/v/cutlass/base_dsl/jit_executor.py"),
        ("/tmp/compiler.py", "/v/mytriton/compiler.py"),
    ],
)
def test_a_launch_that_fails_is_no_compilation(files: tuple[str, ...], patterns: CompilerPatterns) -> None:
    assert failure(raised_in(*files), patterns).compiling is False


def test_causes_that_form_a_ring_end(patterns: CompilerPatterns) -> None:
    first, second = raised_in("/a.py"), raised_in("/b.py")
    first.__cause__, second.__cause__ = second, first
    assert failure(first, patterns).compiling is False


def test_colours_are_dropped_and_generated_code_is_left_out(patterns: CompilerPatterns) -> None:
    said = 'a.h(1): warning: old\n/tmp/k.cu(19): error: identifier "f" is undefined\n    f(x);\n    ^\n'
    text = f"extern float g();\nCompilation error:\n\x1b[91m{said}\x1b[0m"
    assert failure(raised_in("/a.py", text=text), patterns).message.startswith(
        "/tmp/k.cu(19): error: identifier"
    )
    assert failure(raised_in("/a.py", text="\x1b[1merror:\x1b[0m odd"), patterns).message == "error: odd"


def test_a_full_device_is_told_where_torch_fails_to_report_it(patterns: CompilerPatterns) -> None:
    hidden = (
        "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp"
    )
    for text in (hidden, "CUDA error: out of memory"):
        assert failure(raised_in("/tmp/candidate.py", text=text), patterns).out_of_memory
    assert failure(torch.OutOfMemoryError("CUDA out of memory"), patterns).out_of_memory
    assert not failure(raised_in("/tmp/candidate.py"), patterns).out_of_memory
