"""Finds the C++ compiler, nvcc, torch's headers and libraries, and Python's headers.

Reads files and asks compilers for their version; never imports torch.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from kernelwright.evaluator.building.policy import IDENTIFY_S
from kernelwright.evaluator.schema.errors import MachineError

FALLBACK_STANDARD = "c++17"
"""Language standard of extensions where torch's own default cannot be read."""


@dataclass(frozen=True, slots=True)
class Torch:
    """The installed torch, as a compiler sees it."""

    root: Path
    version: str
    cxx_standard: str
    """Language standard torch's own `load_inline` asks for, such as `c++17`."""
    cxx11_abi: bool

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        include = self.root / "include"
        return (include, include / "torch" / "csrc" / "api" / "include")

    @property
    def lib_dir(self) -> Path:
        return self.root / "lib"

    def has_library(self, name: str) -> bool:
        """True where `-l<name>` resolves in torch's own folder."""
        return (self.lib_dir / f"lib{name}.so").exists()


@dataclass(frozen=True, slots=True)
class Compiler:
    """One compiler and its identity in cache keys."""

    path: Path
    identity: str
    """First lines of `--version`; another identity means other machine code."""

    @property
    def is_clang(self) -> bool:
        """True for clang under any name; it finds precompiled headers in its own way."""
        return "clang" in self.identity


@dataclass(frozen=True, slots=True)
class Cuda:
    home: Path
    nvcc: Compiler
    include_dirs: tuple[Path, ...]
    lib_dirs: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Compilers, torch and Python as a build uses them."""

    cxx: Compiler
    torch: Torch
    python_include: Path
    python_abi: str
    cuda: Cuda | None
    """None without a CUDA toolkit."""

    def folders(self) -> tuple[Path, ...]:
        found = [self.cxx.path.resolve().parent.parent, self.torch.root, self.python_include]
        if self.cuda:
            found += [self.cuda.home, *self.cuda.include_dirs, *self.cuda.lib_dirs]
        return tuple(dict.fromkeys(path for path in found if path.exists()))


def find_toolchain() -> Toolchain:
    """Find compilers and torch on this machine; raises MachineError where either is missing."""
    return Toolchain(
        cxx=_find_cxx(),
        torch=_find_torch(),
        python_include=Path(sysconfig.get_path("include")),
        python_abi=f"{sys.implementation.cache_tag}-{sysconfig.get_config_var('SOABI')}",
        cuda=_find_cuda(),
    )


def _find_cxx() -> Compiler:
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return Compiler(path=Path(found), identity=_identify(Path(found)))
    raise MachineError("no C++ compiler found (g++ or clang++); install g++")


def _identify(compiler: Path) -> str:
    try:
        answer = subprocess.run(
            [compiler, "--version"],
            capture_output=True,
            text=True,
            timeout=IDENTIFY_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"the compiler {compiler} does not answer --version: {error}") from error
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    versions = [line for line in lines if re.search(r"\d+\.\d+", line)]
    return f"{compiler.name}: {'; '.join(versions[:2])}"


def _find_torch() -> Torch:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise MachineError("torch is not installed in this environment; install torch")
    root = Path(spec.origin).resolve().parent
    if not (root / "include" / "torch" / "extension.h").exists():
        raise MachineError(f"torch at {root} has no C++ headers; install a torch wheel that carries them")
    version = re.search(r"__version__ = '([^']+)'", (root / "version.py").read_text())
    return Torch(
        root=root,
        version=version.group(1) if version else "unknown",
        cxx_standard=_default_standard(root),
        cxx11_abi=b"NSt7__cxx1112basic_string" in (root / "lib" / "libc10.so").read_bytes(),
    )


def _default_standard(root: Path) -> str:
    """The standard torch's own builder names: C++17 or C++20, by release."""
    text = (root / "utils" / "cpp_extension.py").read_text()
    found = re.search(r"""['"]-fPIC['"], ['"]-std=(c\+\+\d+)['"]""", text)
    return found.group(1) if found else FALLBACK_STANDARD


def _find_cuda() -> Cuda | None:
    home = _find_cuda_home()
    if home is None:
        return None
    nvcc = home / "bin" / "nvcc"
    return Cuda(
        home=home,
        nvcc=Compiler(path=nvcc, identity=_identify(nvcc)),
        include_dirs=(home / "include", *_vendored_cuda_includes()),
        lib_dirs=tuple(path for path in (home / "lib64", home / "lib") if path.is_dir())[:1],
    )


def _find_cuda_home() -> Path | None:
    nvcc = shutil.which("nvcc")
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    places += [str(Path(nvcc).resolve().parent.parent)] if nvcc else []
    for place in (*places, "/usr/local/cuda"):
        home = Path(place).resolve() if place else None
        if home and (home / "include" / "cuda_runtime.h").exists() and (home / "bin" / "nvcc").exists():
            return home
    return None


def _vendored_cuda_includes() -> list[Path]:
    """Folders of headers in the `nvidia-*` wheels beside torch, which a bare toolkit lacks (cuBLAS, ...)."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(path for root in roots for path in Path(root).glob("*/include") if path.is_dir())
