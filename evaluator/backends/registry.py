"""The backends table: how a kernel may be written, and what that asks of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

from kernelwright.evaluator.schema.errors import ConfigError, MachineError


@dataclass(frozen=True, slots=True)
class Package:
    """A Python package that candidates import."""

    name: str
    """What pip calls it."""
    module: str
    """What it is imported as."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to write a kernel."""

    name: str
    """The word used on the command line and in every record."""
    device: str
    """Kind of device the kernel runs on: `cpu` or `cuda`."""
    language: str
    """What the kernel source is written in, for people."""
    fence: str
    """Language tag expected on the final code block of a reply."""
    requires: tuple[Package, ...] = ()
    """What a candidate of this backend needs besides torch."""
    decorators: tuple[str, ...] = ()
    """What marks kernels that are Python functions, such as `triton.jit`: those are compiled in the
    candidate's own process when they are first called. Empty where kernels are text that is built apart."""

    @property
    def compiles_when_called(self) -> bool:
        """Whether the first call of a candidate compiles its kernels."""
        return bool(self.decorators)


BACKENDS: Final = MappingProxyType(
    {
        backend.name: backend
        for backend in (
            Backend(name="cuda", device="cuda", language="CUDA C++", fence="python"),
            Backend(name="cpp", device="cpu", language="C++ on the CPU", fence="python"),
            Backend(
                name="triton",
                device="cuda",
                language="Triton",
                fence="python",
                requires=(Package("triton", "triton"),),
                decorators=("triton.jit",),
            ),
            Backend(
                name="tilelang",
                device="cuda",
                language="TileLang",
                fence="python",
                requires=(Package("tilelang", "tilelang"),),
                decorators=("T.prim_func", "tilelang.jit"),
            ),
            Backend(
                name="cute",
                device="cuda",
                language="CuTe DSL",
                fence="python",
                requires=(Package("nvidia-cutlass-dsl", "cutlass"),),
                decorators=("cute.kernel",),
            ),
        )
    }
)


def find_backend(name: str) -> Backend:
    """Look a backend up by name.

    Raises:
        ConfigError: unknown name; the message lists the known ones.
    """
    try:
        return BACKENDS[name]
    except KeyError:
        raise ConfigError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}") from None


def check_packages(name: str) -> None:
    """Make sure that a backend's packages are installed here; imports none of them.

    Raises:
        ConfigError: unknown backend.
        MachineError: a package is missing; the message says how to get it.
    """
    for package in find_backend(name).requires:
        if find_spec(package.module) is None:
            raise MachineError(f"backend {name} needs the package {package.name}: pip install {package.name}")
