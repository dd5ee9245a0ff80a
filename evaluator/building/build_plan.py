"""Turns a request into the exact files and commands of one build, and their content address.

Reproduces torch's own `load_inline` and `load` without ninja: the same implicit headers, bindings and
libraries in the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from kernelwright.evaluator.building.build_request import BuildRequest, InvalidRequest
from kernelwright.evaluator.building.flags import Flags
from kernelwright.evaluator.building.toolchain import Cuda, Toolchain
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.record import sha256_text

OUTPUT: Final = "built.so"
PRECOMPILABLE: Final = "torch/extension.h"
"""The header almost every C++ source begins with."""
_NAME_HEADER: Final = "extension_name.h"
_CXX_SUFFIXES: Final = (".cpp", ".cc", ".cxx", ".c")
_CUDA_SUFFIX: Final = ".cu"
_FIRST_INCLUDE: Final = re.compile(
    r"(?>\s+|//[^\n]*\n|/\*.*?\*/)*+#\s*+include\s*+[<\"]torch/extension\.h[>\"]", re.DOTALL
)
"""A precompiled header serves only a file's first include. No backtracking: the text may be hostile."""
_PLAIN_PATH: Final = re.compile(r"[\w.][\w.+=, /-]*")
"""A text that a compiler reads as a path: no option, no `@` file of options, nothing for a shell."""
_NVCC_DEFAULTS: Final = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)
"""Options torch passes to every nvcc run; candidates rely on them."""


@dataclass(frozen=True, slots=True)
class HeaderSet:
    """The headers of a build, and the libraries it links besides its own objects."""

    tier: str
    """`lean` or `full`."""
    include_dirs: tuple[Path, ...]
    link: tuple[str, ...]
    """Objects, folders and libraries, in linker order."""
    cuda_link: tuple[str, ...]
    """The same, when the extension uses CUDA."""
    version: str
    """Identity of the contents of `include_dirs` and `link`."""
    first: str = ""
    """A header included on the command line where a source begins with it, so that it can be precompiled."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """One build: files to write and commands to run."""

    tier: str
    files: Mapping[str, str]
    compile: tuple[tuple[str, ...], ...]
    link: tuple[str, ...]
    identity: str = ""
    """Of compilers, torch, Python and headers."""

    @property
    def key(self) -> str:
        """Content address of everything that determines the result."""
        return sha256_text(
            json.dumps([dict(self.files), self.compile, self.link, self.tier, self.identity], sort_keys=True)
        )


@dataclass(frozen=True, slots=True)
class _Context:
    request: BuildRequest
    flags: Flags
    toolchain: Toolchain
    headers: HeaderSet
    cuda: Cuda | None
    """None for an extension without CUDA."""
    architecture: str


def full_headers(toolchain: Toolchain) -> HeaderSet:
    torch = toolchain.torch
    cuda = ("c10_cuda", "torch_cuda")
    return HeaderSet(
        tier="full",
        include_dirs=torch.include_dirs,
        link=(f"-L{torch.lib_dir}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"),
        cuda_link=tuple(f"-l{name}" for name in cuda if torch.has_library(name)),
        version=torch.version,
    )


def plan_build(
    request: BuildRequest, flags: Flags, *, toolchain: Toolchain, headers: HeaderSet, architecture: str | None
) -> BuildPlan:
    """The files and commands that turn a request into a library.

    Raises:
        InvalidRequest: no compiler could build it here.
        MachineError: it needs nvcc and there is none.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", request.name):
        raise InvalidRequest(f"extension name {request.name!r} is not an identifier")
    sources = _sources(request)
    if not sources:
        raise InvalidRequest("no source to build")
    context = _Context(
        request=request,
        flags=flags,
        toolchain=toolchain,
        headers=headers,
        cuda=_cuda_for(request, sources, toolchain, architecture),
        architecture=f"{(architecture or '').removeprefix('sm_')}{flags.architecture_suffix}",
    )
    objects = [f"object{number}.o" for number in range(len(sources))]
    return BuildPlan(
        tier=headers.tier,
        files={**request.files, **sources, _NAME_HEADER: f"#define TORCH_EXTENSION_NAME {request.name}\n"},
        compile=tuple(
            _compile(path, text, made, context)
            for (path, text), made in zip(sources.items(), objects, strict=True)
        ),
        link=_link(objects, context),
        identity=identity_of(toolchain, context.cuda, headers.version),
    )


def _sources(request: BuildRequest) -> dict[str, str]:
    for name in (*request.files, *request.sources, *request.include_paths):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or not name:
            raise InvalidRequest(f"file {name!r} lies outside the build folder")
    for name in (*request.sources, *request.include_paths):
        if not _PLAIN_PATH.fullmatch(name):
            raise InvalidRequest(f"path {name!r} holds characters that a compiler may misread")
    missing = [name for name in request.sources if name not in request.files]
    if missing:
        raise InvalidRequest(f"source {missing[0]!r} does not exist")
    sources = {name: request.files[name] for name in request.sources}
    if request.cpp_sources or request.functions is not None:
        sources["main.cpp"] = "\n".join(
            (*_implicit(request, "cpp"), *request.cpp_sources, *_bindings(request))
        )
    if request.cuda_sources:
        sources["cuda.cu"] = "\n".join((*_implicit(request, "cuda"), *request.cuda_sources))
    return sources


def _implicit(request: BuildRequest, language: str) -> tuple[str, ...]:
    if request.no_implicit_headers:
        return ()
    if language == "cpp":
        return ("#include <torch/extension.h>",)
    return ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")


def _bindings(request: BuildRequest) -> tuple[str, ...]:
    if request.functions is None:
        return ()
    handled = request.with_pytorch_error_handling
    definitions = (
        f'm.def("{name}", {f"torch::wrap_pybind_function({name})" if handled else name}, "{doc}");'
        for name, doc in request.functions.items()
    )
    return ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *definitions, "}")


def _cuda_for(
    request: BuildRequest, sources: Mapping[str, str], toolchain: Toolchain, architecture: str | None
) -> Cuda | None:
    if not request.with_cuda and not any(path.endswith(_CUDA_SUFFIX) for path in sources):
        return None
    if architecture is None:
        raise InvalidRequest("CUDA sources cannot be built for an evaluation on the CPU")
    if toolchain.cuda is None:
        raise MachineError("no CUDA compiler found (nvcc); install the CUDA toolkit or set CUDA_HOME")
    return toolchain.cuda


def _compile(path: str, text: str, made: str, context: _Context) -> tuple[str, ...]:
    toolchain, flags, cuda = context.toolchain, context.flags, context.cuda
    includes = [f"-I{folder}" for folder in context.request.include_paths]
    for folder in (
        *context.headers.include_dirs,
        *(cuda.include_dirs if cuda else ()),
        toolchain.python_include,
    ):
        includes += ["-isystem", str(folder)]
    device = cuda if path.endswith(_CUDA_SUFFIX) else None
    common = [
        *(_named(context) if device else _opening(text, context)),
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(toolchain.torch.cxx11_abi)}",
        *includes,
    ]
    standard = f"-std={toolchain.torch.cxx_standard}"
    if device is None:
        suffix = PurePosixPath(path).suffix
        if suffix not in _CXX_SUFFIXES:
            raise InvalidRequest(f"source {path!r} is neither C++ nor CUDA")
        return (str(toolchain.cxx.path), *common, "-fPIC", standard, *flags.cxx, "-c", path, "-o", made)
    target = f"-gencode=arch=compute_{context.architecture},code=sm_{context.architecture}"
    own_standard = any(flag.lstrip("-").startswith("std=") for flag in flags.cuda)
    options = [
        *_NVCC_DEFAULTS,
        target,
        "--compiler-options",
        "-fPIC",
        "-ccbin",
        str(toolchain.cxx.path),
        # Line numbers for sanitizers and profilers; the machine code stays the same (nvcc manual).
        *([] if {"-lineinfo", "--generate-line-info"}.intersection(flags.cuda) else ["-lineinfo"]),
        *flags.cuda,
    ]
    return (
        str(device.nvcc.path),
        *common,
        *options,
        *([] if own_standard else [standard]),
        "-c",
        path,
        "-o",
        made,
    )


def _named(context: _Context) -> tuple[str, ...]:
    return (f"-DTORCH_EXTENSION_NAME={context.request.name}",)


def _opening(text: str, context: _Context) -> tuple[str, ...]:
    """Define the module's name after a precompilable header: no macro may precede that one."""
    if context.headers.first and _FIRST_INCLUDE.match(text):
        return ("-include", context.headers.first, "-include", _NAME_HEADER)
    return _named(context)


def _link(objects: list[str], context: _Context) -> tuple[str, ...]:
    cuda, headers = context.cuda, context.headers
    libraries = list(headers.link)
    if cuda:
        libraries += [*headers.cuda_link, *(f"-L{folder}" for folder in cuda.lib_dirs), "-lcudart"]
    return (
        str(context.toolchain.cxx.path), *objects, "-shared", *context.flags.link, *libraries, "-o", OUTPUT
    )  # fmt: skip


def identity_of(toolchain: Toolchain, cuda: Cuda | None, version: str) -> str:
    """Everything besides sources and commands that determines the result of a build."""
    parts = [toolchain.cxx.identity, toolchain.torch.version, toolchain.python_abi, version]
    return " | ".join([*parts, cuda.nvcc.identity] if cuda else parts)
