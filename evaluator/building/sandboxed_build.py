"""Runs one plan in the build sandbox: no network, no GPU, no candidate code, limits on everything."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_cache import CacheEntry
from kernelwright.evaluator.building.build_plan import OUTPUT, PRECOMPILABLE, BuildPlan
from kernelwright.evaluator.building.toolchain import Toolchain
from kernelwright.evaluator.host.files import sha256_file
from kernelwright.evaluator.sandbox import Launcher, SandboxPolicy, python_binds, unseen_binds
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError

_SCRIPT: Final = Path(__file__).resolve().with_name("build_script.py")
_OUT_OF_RESOURCES: Final = re.compile(
    r"Killed signal terminated|cc1plus: out of memory|virtual memory exhausted|No space left on device"
    r"|std::bad_alloc|Resource temporarily unavailable|Cannot allocate memory"
)
_PRECOMPILED_REJECTED: Final = re.compile(r"AST file|precompiled header|PCH file")


@dataclass(frozen=True, slots=True)
class Compiled:
    entry: CacheEntry
    reproducible: bool = True
    """False where a repetition could end differently: a time-out, memory, scratch space."""
    timed_out: bool = False
    cached: bool = False
    """The result of an earlier build."""
    seconds: float = 0.0
    cpu_s: float = 0.0
    """Processor time of compilers and linker."""

    @property
    def rejects_precompiled(self) -> bool:
        """True where clang rejected a precompiled header; g++ would read the ordinary one instead."""
        return not self.entry.ok and _PRECOMPILED_REJECTED.search(self.entry.log) is not None


@dataclass(frozen=True, slots=True)
class BuildSandbox:
    """Raises MachineError where the sandbox or a compiler cannot be started."""

    launcher: Launcher
    tier: SandboxTier
    toolchain: Toolchain
    folders: tuple[Path, ...] = ()
    """Read-only folders the plans need beyond the toolchain's."""
    niceness: int = policy.BUILD_NICENESS

    def with_folder(self, folder: Path) -> BuildSandbox:
        return replace(self, folders=(*self.folders, folder))

    def run(
        self,
        plan: BuildPlan,
        library: Path,
        *,
        timeout_s: float,
        workers: int,
        search_first: Path | None = None,
    ) -> Compiled:
        """Compile and link a plan into `library`; C++ compilers search `search_first` before all else."""
        job = {
            "files": dict(plan.files),
            "compile": [_searching(command, search_first, self.toolchain) for command in plan.compile],
            "link": plan.link,
            "output": OUTPUT,
            "workers": workers,
        }
        with ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
            streams[0].write(json.dumps(job).encode())
            streams[0].seek(0)
            streams.insert(1, stack.enter_context(library.open("w+b")))
            fds = tuple(stream.fileno() for stream in streams)
            argv = [sys.executable, "-I", "-S", str(_SCRIPT), *map(str, fds)]
            sandboxed = self.launcher.start(argv, self._policy(timeout_s, (*self.folders, _SCRIPT)), fds=fds)
            try:
                ended = sandboxed.wait(timeout_s)
            finally:
                sandboxed.kill()
            if ended is None:
                log = f"the build did not finish in {timeout_s:.0f} s"
                return Compiled(CacheEntry(ok=False, log=log), reproducible=False, timed_out=True)
            streams[2].seek(0)
            report = streams[2].read()
        if ended.out_of_memory:
            return Compiled(CacheEntry(ok=False, log="the build ran out of memory"), reproducible=False)
        try:
            steps = json.loads(report)
            return replace(_result(steps["steps"], library), cpu_s=steps["cpu_s"])
        except json.JSONDecodeError:
            output = sandboxed.output()[-500:].strip()
            raise MachineError(f"the build sandbox gave no report: {ended.reason} {output}") from None

    def run_check(self, argv: tuple[str, ...], places: tuple[Path, ...], *, timeout_s: float) -> str:
        """Run a check of our own in the sandbox; returns its output if it failed, else an empty string."""
        sandboxed = self.launcher.start(argv, self._policy(timeout_s, places))
        try:
            ended = sandboxed.wait(timeout_s)
        finally:
            sandboxed.kill()
        if ended is not None and ended.returncode == 0:
            return ""
        output = sandboxed.output()[-policy.CHECK_OUTPUT_CHARACTERS :]
        return f"{output} {ended.reason if ended else 'it did not finish'}".strip()

    def _policy(self, timeout_s: float, places: tuple[Path, ...]) -> SandboxPolicy:
        """Bounds of a build that sees the toolchain and these places."""
        return SandboxPolicy(
            tier=self.tier,
            memory_bytes=policy.BUILD_MEMORY_BYTES,
            processes=policy.BUILD_PROCESSES,
            file_bytes=policy.LIBRARY_BYTES,
            scratch_bytes=policy.BUILD_SCRATCH_BYTES,
            environment={
                "PATH": f"{self.toolchain.cxx.path.parent}:/usr/local/bin:/usr/bin:/bin",
                "HOME": "/tmp",
                "TMPDIR": "/tmp",
                "LC_ALL": "C",
            },
            binds=(*python_binds(), *unseen_binds((*self.toolchain.folders(), *places))),
            cpu_s=timeout_s,
            niceness=self.niceness,
        )


def _searching(command: tuple[str, ...], first: Path | None, toolchain: Toolchain) -> tuple[str, ...]:
    if first is None or command[0] != str(toolchain.cxx.path):
        return command
    words = command[1:]
    if toolchain.cxx.is_clang:
        # clang looks for precompiled headers beside an -include file, not in the folders it searches.
        option = ("-include", PRECOMPILABLE)
        words = tuple(str(first / two[1]) if two == option else two[1] for two in pairwise(command))
    return (command[0], "-isystem", str(first), *words)


def _result(steps: list[dict[str, Any]], library: Path) -> Compiled:  # Any: JSON of our own script
    failed = [step for step in steps if step["returncode"] != 0]
    if failed and failed[0]["argv0"] == "deliver" and "No space left" in failed[0]["log"]:
        raise MachineError(f"no disk space left at {library.parent}")
    if not failed:
        return Compiled(CacheEntry(ok=True, sha256=sha256_file(library), size=library.stat().st_size))
    log = "\n".join(step["log"].strip() for step in failed).strip()
    log = log or "the compiler failed and printed nothing"
    reproducible = not _OUT_OF_RESOURCES.search(log)
    if (left_out := len(log) - policy.LOG_HEAD - policy.LOG_TAIL) > 0:
        log = f"{log[: policy.LOG_HEAD]}\n[{left_out} characters left out]\n{log[-policy.LOG_TAIL :]}"
    return Compiled(CacheEntry(ok=False, log=log), reproducible)
