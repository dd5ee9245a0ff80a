"""The read-only copy of modules that a sandboxed process runs from: just those it needs."""

from __future__ import annotations

import compileall
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Final

from kernelwright.evaluator.backends.registry import BACKENDS, export_backends
from kernelwright.evaluator.driver.policy import OTHER_TASKS, REFEREE_MEMORY_GIB, REFEREE_TASKS, SCRATCH_BYTES
from kernelwright.evaluator.host.hardware import gpu_nodes, visible_name, wait_policy
from kernelwright.evaluator.sandbox import Bind, SandboxedProcess, SandboxPolicy, python_binds
from kernelwright.evaluator.sandbox.process.cleanup import owner_name
from kernelwright.evaluator.schema.config import EvaluationConfig, SandboxTier

_PACKAGE = Path(__file__).parents[2]
_SERIAL = itertools.count(1)
_CONTESTANT_PARTS = ("ipc", "contestant", "devices")
_INSIDE = Path("/kernelwright")

_CONTESTANT_MAIN = "from kernelwright.evaluator.contestant.executor import main"
_REFEREE_MAIN = (
    "from kernelwright.evaluator.referee.pid_offset import raise_pid; raise_pid(); "
    "from kernelwright.evaluator.referee.server import main"
)

_PRELOADED: Final = {
    "referee": ("torch", "pydantic"),
    "cpu": ("torch",),
    "cuda": ("torch", "torch._inductor.compile_fx", "triton"),
}
"""Modules that a referee, or a contestant by its device, imports first: torch takes a second, its compiler,
which every problem's baseline needs on a GPU, 2.3 s."""


_IMPORT_EACH: Final = """
import contextlib, importlib, os, sys
os.nice(19)
for name in sys.argv[1:]:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""
_IMPORTED: Final = ("torch", "torch._inductor.compile_fx", "torch.utils.cpp_extension", "triton")
"""Modules that every process compiles anew where they have no bytecode: to import all took 17 s of a core on
an H200's host."""


def preloaded(kind: str) -> tuple[str, ...]:
    """Modules that a `referee` or a contestant on `cpu` or `cuda` imports first, but for missing packages."""
    return tuple(name for name in _PRELOADED[kind] if find_spec(name.partition(".")[0]) is not None)


def keep_bytecode(modules: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Import modules in a process of its own, which may write bytecode, unless each has some.

    Some installers leave compiling to the first import, and sandboxed processes cannot write. Returns the
    process, of low priority; None where nothing is to be done, or nothing can be written.
    """
    files = {name: file for name in modules if (file := _source(name)) is not None}
    if all(Path(cache_from_source(str(file))).exists() for file in files.values()):
        return None
    if not all(os.access(file.parent, os.W_OK) for file in files.values()):
        return None
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _IMPORT_EACH, *files],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _source(module: str) -> Path | None:
    """A module's file, found without importing it; None where there is none."""
    top, *parts = module.split(".")
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    file = origin.parent.joinpath(*parts).with_suffix(".py") if parts else origin
    return file if file.is_file() else None


def connected(start: Callable[[int], SandboxedProcess]) -> tuple[socket.socket, SandboxedProcess]:
    """Start a process with the number of its end of a socket pair; return our end and the process."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            return ours, start(theirs.fileno())
    except BaseException:
        ours.close()
        raise


class RuntimeImage:
    """Folders on the host that sandboxes see read-only."""

    def __init__(self, tier: SandboxTier) -> None:
        self._tier = tier
        # The name lets the next launcher sweep the folder when this process is killed.
        self.root = Path(tempfile.mkdtemp(prefix=f"{owner_name(next(_SERIAL))}staging-"))
        self.root.chmod(0o755)
        contestant, referee = (self._package_of(kind) for kind in ("contestant", "referee"))
        contestant.mkdir(parents=True)
        (contestant / "__init__.py").touch()
        # Every process started from here imports what is compiled once.
        compileall.compile_dir(_PACKAGE, quiet=2)
        self._compiler = keep_bytecode(_IMPORTED)
        for part in _CONTESTANT_PARTS:
            shutil.copytree(_PACKAGE / part, contestant / part)
        shutil.copytree(_PACKAGE, referee)
        # What the package offers its users would bring all of the driver along.
        (referee / "__init__.py").write_text("")
        for package in (contestant, referee):
            export_backends(package)
        for path in self.root.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def _package_of(self, kind: str) -> Path:
        """The evaluator's folder in one image, below an empty `kernelwright` package."""
        parent = self.root / kind / "kernelwright"
        parent.mkdir(parents=True)
        (parent / "__init__.py").touch()
        return parent / "evaluator"

    def built_folder(self, name: str) -> Path:
        """A fresh folder one contestant finds its built libraries in."""
        folder = self.root / "libraries" / name
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        return folder

    def seen(self, path: Path) -> Path:
        """Translate a path below the root into the sandbox's own."""
        if self._tier is not SandboxTier.BUBBLEWRAP:
            return path
        return _INSIDE / path.relative_to(self.root)

    def bind(self, path: Path) -> Bind:
        """Show a path below the root."""
        return Bind(path, self.seen(path))

    def command(self, kind: str, fd: int) -> list[str]:
        """The command that starts a `contestant` or `referee` that speaks on descriptor `fd`."""
        main = _CONTESTANT_MAIN if kind == "contestant" else _REFEREE_MAIN
        folder = self.seen(self.root / kind)
        # What is imported stays: looking through it for garbage, then or later, takes a tenth of the time to
        # start each time.
        imports = f"import gc, sys; gc.disable(); sys.path.insert(0, {str(folder)!r}); {main}"
        program = f"{imports}; gc.freeze(); gc.enable(); main()"
        # Like -I, but for the environment, which is wholly ours and fixes the hash seed.
        return [sys.executable, "-s", "-P", "-B", "-W", "ignore", "-c", program, str(fd)]

    def contestant_policy(
        self, config: EvaluationConfig, *, device: str, libraries: Path, threads: int
    ) -> SandboxPolicy:
        """Bounds of a process that runs foreign code."""
        limits = config.limits
        return SandboxPolicy(
            tier=self._tier,
            binds=(*python_binds(), self.bind(self.root / "contestant"), self.bind(libraries)),
            devices=gpu_nodes(device),
            environment=_environment(threads, device),
            memory_bytes=int(limits.memory_gib * 2**30),
            # On hosts of very many cores torch alone takes that many.
            processes=max(limits.processes, threads + OTHER_TASKS),
            file_bytes=limits.file_mib << 20,
            scratch_bytes=limits.file_mib << 20,
        )

    def referee_policy(self, *, device: str, threads: int) -> SandboxPolicy:
        """Bounds of the process that runs the problem."""
        return SandboxPolicy(
            tier=self._tier,
            binds=(*python_binds(), self.bind(self.root / "referee")),
            devices=gpu_nodes(device),
            # Nothing is timed in it; threads that spin for each other are slow where cores are shared.
            # Its temporaries are large and many: new pages for each would take longer than the arithmetic.
            environment=_environment(threads, device)
            | {"OMP_WAIT_POLICY": "passive", "MALLOC_MMAP_THRESHOLD_": str(1 << 30)},
            memory_bytes=REFEREE_MEMORY_GIB << 30,
            processes=REFEREE_TASKS,
            # Memory shared with contestants on a CPU counts as a file.
            file_bytes=REFEREE_MEMORY_GIB << 30,
            scratch_bytes=SCRATCH_BYTES,
        )

    def close(self) -> None:
        """Remove the folders; what is not compiled by then is left to the next one."""
        if self._compiler is not None:
            self._compiler.kill()
            self._compiler.wait()
        shutil.rmtree(self.root, ignore_errors=True)


def _environment(threads: int, device: str) -> dict[str, str]:
    """The whole environment of a sandboxed process; no secret is ever in it."""
    environment = {
        "PATH": "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "kernelwright",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        # Dictionaries laid out alike in every process: one reason less for their times to differ.
        "PYTHONHASHSEED": "0",
        # Freed memory is kept, as on a GPU. Whether malloc gives it back, and calls then wait for new pages,
        # would hang on what a process did before.
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        # NumPy's threads would spin, when they start and after each use, for work that seldom comes: for
        # 2**26 cycles by default, a twentieth of what importing torch takes.
        "OPENBLAS_THREAD_TIMEOUT": "4",
        "KINETO_LOG_LEVEL": "99",
        # Looking through every installed package for other devices' backends is a tenth of importing torch.
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
        # Worker processes cost seconds to start and would outlive the compilation they help with.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        **wait_policy(),
        **{name: value for backend in BACKENDS.values() for name, value in backend.environment.items()},
    }
    if device != "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = visible_name(device)
        environment["CUDA_MODULE_LOADING"] = "LAZY"
        # A longer queue: timed calls wait in it for their inputs.
        environment["CUDA_SCALE_LAUNCH_QUEUES"] = "4x"
    return environment
