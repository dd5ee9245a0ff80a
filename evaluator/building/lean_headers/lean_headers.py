"""Makes the lean headers for one installed torch: a header tree and the helper library it links with.

Made once per machine, torch and compiler, in the build sandbox, verified by a self-test, and cached beside
the builds. Where any of that fails, builds use torch's full headers.
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernelwright.evaluator.building.build_plan import (
    OUTPUT,
    PRECOMPILABLE,
    BuildPlan,
    HeaderSet,
    identity_of,
    plan_build,
)
from kernelwright.evaluator.building.build_request import BuildRequest
from kernelwright.evaluator.building.flags import Flags
from kernelwright.evaluator.building.lean_headers.aten_operators import (
    python_objects,
    read_functions,
    read_methods,
)
from kernelwright.evaluator.building.policy import PREPARE_NICENESS, PREPARE_S
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox
from kernelwright.evaluator.building.toolchain import Toolchain
from kernelwright.evaluator.host import trace
from kernelwright.evaluator.schema.record import sha256_text

SOURCES: Final = Path(__file__).parent
_OWN: Final = "kernelwright"
_SUFFIXES: Final = (".h", ".cpp", ".txt", ".py")
_LAYOUT_MARK: Final = struct.pack("<QQ", 0x6B65726E656C7772, 0x696768746C61796F)
_LAYOUT_NAMES: Final = (
    "KW_NUMEL_OFFSET",
    "KW_SIZES_OFFSET",
    "KW_STORAGE_OFFSET_OFFSET",
    "KW_INLINE_DIMENSIONS",
    "KW_UNDEFINED_SCALAR_TYPE",
)
"""The values that `helper/tensor.cpp` records, in its order."""
_HELPER_FLAGS: Final = (
    "-O1", "-fPIC", "-fno-strict-aliasing", "-fno-access-control", "-ffunction-sections", "-w",
    "-DAT_PER_OPERATOR_HEADERS",
)  # fmt: skip

_TYPES: Final = ("tensor.h", "dispatch.h", "parallel.h")
_ALL: Final = (*_TYPES, "bindings.h", "library.h", "functional.h")
_CUDA: Final = (*_TYPES, "cuda.h")
_FORWARDED: Final = (
    (_ALL, "torch/extension.h torch/torch.h torch/python.h torch/csrc/utils/pybind.h"),
    (_TYPES, "torch/all.h torch/types.h ATen/ATen.h ATen/Tensor.h ATen/core/Tensor.h ATen/Functions.h"),
    (_TYPES, "ATen/TensorIndexing.h"),
    ((*_TYPES, "library.h"), "torch/library.h"),
    ((*_TYPES, "functional.h"), "torch/nn/functional.h"),
    (("bindings.h",), "pybind11/pybind11.h pybind11/stl.h"),
    (("dispatch.h",), "ATen/Dispatch.h"),
    (("parallel.h",), "ATen/Parallel.h"),
    (("scalars.h",), "ATen/AccumulateType.h ATen/OpMathType.h c10/util/Half.h c10/util/BFloat16.h"),
    (("scalars.h",), "c10/core/ScalarType.h"),
    (("values.h",), "c10/util/Optional.h c10/util/ArrayRef.h c10/core/Device.h c10/core/TensorOptions.h"),
    (("checks.h",), "c10/util/Exception.h c10/macros/Macros.h"),
    (("cuda.h",), "ATen/ceil_div.h"),
    (_CUDA, "ATen/cuda/CUDAContext.h ATen/cuda/CUDAContextLight.h ATen/cuda/CUDABlas.h"),
    (_CUDA, "ATen/cuda/CUDAUtils.h ATen/cuda/Exceptions.h ATen/cuda/Atomic.cuh ATen/cuda/DeviceUtils.cuh"),
    (_CUDA, "ATen/cuda/detail/KernelUtils.h c10/cuda/CUDAException.h c10/cuda/CUDAFunctions.h"),
    (_CUDA, "c10/cuda/CUDAGuard.h c10/cuda/CUDAStream.h"),
)
FORWARDERS: Final = MappingProxyType({name: parts for parts, names in _FORWARDED for name in names.split()})
"""Torch's header names that candidates include, and which lean headers stand in for each."""


@dataclass(frozen=True, slots=True)
class LeanHeaders:
    """Lean headers that passed their self-test."""

    folder: Path
    toolchain: Toolchain

    @property
    def include_dir(self) -> Path:
        """The header tree, in which `<torch/extension.h>` and others are found."""
        return self.folder / "include"

    def headers(self) -> HeaderSet:
        """The lean tier; torch's own include folders are not on its path, so the two never mix."""
        sections = ("-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic")
        return HeaderSet(
            tier="lean",
            include_dirs=(self.include_dir,),
            link=(
                str(self.folder / "helper.a"),
                f"-L{self.toolchain.torch.lib_dir}",
                "-Wl,--no-as-needed",
                "-ltorch_python",
                *sections,
            ),
            cuda_link=(),
            version=self.folder.name,
            first=PRECOMPILABLE,
        )


class UnfitLeanHeaders(Exception):
    """The lean headers do not fit this torch or compiler; the message says why."""


def lean_headers_key(toolchain: Toolchain) -> str:
    """Content address of everything the lean headers are made from."""
    own = [path for path in sorted(SOURCES.rglob("*")) if path.suffix in _SUFFIXES]
    texts = [path.read_text() for path in own]
    return sha256_text("\0".join([*texts, identity_of(toolchain, toolchain.cuda, str(toolchain.torch.root))]))


def make_lean_headers(folder: Path, sandbox: BuildSandbox) -> None:
    """Fill an empty folder: compile the helper, write the header tree, test both.

    Raises:
        UnfitLeanHeaders: they do not fit this torch or compiler.
        MachineError: the sandbox failed.
    """
    toolchain, track = sandbox.toolchain, trace.new_track("lean headers")
    if _serves_gpus(toolchain):
        sandbox = replace(sandbox, niceness=PREPARE_NICENESS)
    files, plan = _read_helper(toolchain)
    archive = folder / "helper.a"
    with trace.span(track, "compile helper"):
        made = sandbox.run(plan, archive, timeout_s=PREPARE_S, workers=len(os.sched_getaffinity(0)))
    if not made.entry.ok:
        raise UnfitLeanHeaders(made.entry.log)
    archive.chmod(0o444)
    for name, text in (files | _forwarders() | {f"{_OWN}/layout.h": _layout(archive.read_bytes())}).items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with trace.span(track, "self-test"):
        _test(LeanHeaders(folder, toolchain), sandbox)


def _test(lean: LeanHeaders, sandbox: BuildSandbox) -> None:
    request = BuildRequest(
        name="selftest",
        files={"selftest.cpp": (SOURCES / "selftest.cpp").read_text()},
        sources=("selftest.cpp",),
    )
    plan = plan_build(
        request, Flags(cxx=["-O2"]), toolchain=sandbox.toolchain, headers=lean.headers(), architecture=None
    )
    library = lean.folder / "selftest.so"
    made = sandbox.with_folder(lean.folder).run(plan, library, timeout_s=PREPARE_S, workers=1)
    if not made.entry.ok:
        raise UnfitLeanHeaders(f"the self-test does not compile: {made.entry.log}")
    library.chmod(0o755)
    script = SOURCES / "selftest.py"
    argv = (sys.executable, "-I", str(script), str(library))
    if output := sandbox.run_check(argv, (script, library), timeout_s=PREPARE_S):
        raise UnfitLeanHeaders(f"the self-test fails: {output}")
    library.unlink()


def _read_helper(toolchain: Toolchain) -> tuple[dict[str, str], BuildPlan]:
    include = toolchain.torch.include_dirs[0]
    names = (SOURCES / "operators.txt").read_text().split()
    functions, methods = read_functions(include, names), read_methods(include, names)
    present = [name for name in names if (include / f"ATen/ops/{name}.h").exists()]
    headers = {f"{_OWN}/{path.name}": path.read_text() for path in sorted((SOURCES / _OWN).glob("*.h"))}
    helper = {f"helper/{path.name}": path.read_text() for path in sorted((SOURCES / "helper").iterdir())}
    kinds = (("functions", functions, False, tuple(present)), ("methods", methods, True, ()))
    for name, operators, method, included in kinds:
        lines = [operator.declaration(method=method) for operator in operators]
        headers[f"{_OWN}/{name}.inc"] = "\n".join(lines)
        body = [operator.definition(method=method) for operator in operators]
        parts = ['#include "real.h"', *(f"#include <ATen/ops/{header}.h>" for header in included)]
        helper[f"helper/{name}.cpp"] = "\n".join([*parts, "namespace kernelwright {", *body, "}", ""])
    helper["helper/objects.inc"] = python_objects(include)
    return headers, _plan_helper(toolchain, headers | helper)


def _plan_helper(toolchain: Toolchain, files: dict[str, str]) -> BuildPlan:
    torch, cuda = toolchain.torch, toolchain.cuda
    units = ["functions", "indexing", "methods", "library", "tensor", "python"]
    folders = [*torch.include_dirs, toolchain.python_include]
    if cuda and _serves_gpus(toolchain):
        units.insert(0, "cuda")
        folders += cuda.include_dirs
    common = [str(toolchain.cxx.path), f"-std={torch.cxx_standard}", *_HELPER_FLAGS, "-I.", "-Ihelper"]
    common += [word for folder in folders for word in ("-isystem", str(folder))]
    common.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}")
    return BuildPlan(
        tier="helper",
        files=files,
        compile=tuple((*common, "-c", f"helper/{unit}.cpp", "-o", f"{unit}.o") for unit in units),
        link=("ar", "rcs", OUTPUT, *(f"{unit}.o" for unit in units)),
    )


def _serves_gpus(toolchain: Toolchain) -> bool:
    return toolchain.cuda is not None and toolchain.torch.has_library("c10_cuda")


def _layout(archive: bytes) -> str:
    start = archive.find(_LAYOUT_MARK)
    if start < 0:
        raise UnfitLeanHeaders("the helper does not record how tensors are laid out")
    values = struct.unpack_from(f"<{len(_LAYOUT_NAMES)}Q", archive, start + len(_LAYOUT_MARK))
    lines = [f"#define {name} {value}" for name, value in zip(_LAYOUT_NAMES, values, strict=True)]
    return "\n".join(["#ifndef KW_LAYOUT_H", "#define KW_LAYOUT_H", *lines, "#endif", ""])


def _forwarders() -> dict[str, str]:
    return {
        name: "".join(f"#include <{_OWN}/{part}>\n" for part in ("layout.h", *parts, "names.h"))
        for name, parts in FORWARDERS.items()
    }
