"""Builds a candidate's extensions in a sandbox, once each, and keeps them.

A bad request, a compile error or a time-out is an answer; a missing compiler or a full disk is an exception.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from evaluator.building import instrumentation
from evaluator.building.cache import DEFAULT_MAX_BYTES, BuildCache, Entry
from evaluator.building.compiling import BuildSandbox
from evaluator.building.flags import Flags, RefusedFlag, screen_flags
from evaluator.building.plan import BadRequest, Plan, plan_build, real_headers
from evaluator.building.request import BuildOutcome, BuildRequest
from evaluator.building.toolchain import Toolchain, find_toolchain
from evaluator.config import SandboxTier
from evaluator.evaluation import Build
from evaluator.sandbox import Launcher

_HEAVY_BYTES: Final = 3 << 30
"""Memory a build with torch's real headers may need: g++ 1.3 GiB, nvcc 3 GiB."""


@dataclass(frozen=True, slots=True)
class _Done:
    entry: Entry
    cached: bool
    seconds: float


class Builder:
    """Turns requests into libraries; usable from any thread."""

    def __init__(
        self,
        *,
        cache: Path,
        launcher: Launcher,
        tier: SandboxTier,
        jobs: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Open the cache below `cache`; compilers are looked for by the first build.

        Raises:
            MachineError: the cache cannot be written.
        """
        self._cache = BuildCache(cache, max_bytes=max_bytes)
        self._launcher = launcher
        self._tier = tier
        cores = len(os.sched_getaffinity(0))
        self._workers = cores
        self._slots = threading.BoundedSemaphore(jobs or _jobs(cores))
        self._guard = threading.Lock()
        self._flights: dict[str, Future[_Done]] = {}

    @cached_property
    def toolchain(self) -> Toolchain:
        """What this machine compiles with.

        Raises:
            MachineError: no compiler or no torch.
        """
        with self._guard:
            return find_toolchain()

    def build(
        self, request: BuildRequest, *, architecture: str | None, timeout_s: float, instrumented: bool = False
    ) -> BuildOutcome:
        """Build a request, or find it built; `architecture` such as `sm_90`, None for the CPU.

        With `instrumented`, host code checks its own memory accesses; the library needs a runtime preloaded.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        try:
            flags = screen_flags(request)
            if instrumented:
                flags = instrumentation.instrumented(flags)
            plan = plan_build(
                request,
                flags,
                toolchain=self.toolchain,
                headers=real_headers(self.toolchain),
                architecture=architecture,
            )
        except (RefusedFlag, BadRequest) as fault:
            return BuildOutcome(build=_refusal(request, str(fault)))
        return self._outcome(request, flags, plan, self._once(plan, timeout_s))

    def _outcome(self, request: BuildRequest, flags: Flags, plan: Plan, done: _Done) -> BuildOutcome:
        entry = done.entry
        build = Build(
            name=request.name,
            key=plan.key,
            tier=plan.tier,
            cached=done.cached,
            seconds=0.0 if done.cached else done.seconds,
            ok=entry.ok,
            log=entry.log,
            notes=tuple(flags.notes),
        )
        library = self._cache.library(plan.key) if entry.ok else None
        return BuildOutcome(
            build=build, shared_object=library, module_name=plan.module_name, sources=dict(plan.files)
        )

    def _once(self, plan: Plan, timeout_s: float) -> _Done:
        """Build a plan, or share the answer of the thread that is building it."""
        with self._guard:
            flight = self._flights.get(plan.key)
            mine = flight is None
            flight = flight or Future()
            self._flights[plan.key] = flight
        if not mine:
            shared = flight.result()
            return _Done(entry=shared.entry, cached=True, seconds=0.0)
        try:
            done = self._find_or_make(plan, timeout_s)
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(done)
            return done
        finally:
            with self._guard:
                del self._flights[plan.key]

    def _find_or_make(self, plan: Plan, timeout_s: float) -> _Done:
        key = plan.key
        found = self._cache.find(key)
        if found is None:
            with self._cache.building(key):
                found = self._cache.find(key)
                if found is None:
                    return self._make(plan, key, timeout_s)
        return _Done(entry=found, cached=True, seconds=0.0)

    def _make(self, plan: Plan, key: str, timeout_s: float) -> _Done:
        sandbox = BuildSandbox(launcher=self._launcher, tier=self._tier, toolchain=self.toolchain)
        with self._slots, self._cache.staged() as folder:
            started = time.monotonic()
            compiled = sandbox.run(plan, folder / "built.so", timeout_s=timeout_s, workers=self._workers)
            seconds = time.monotonic() - started
            entry = Entry(ok=compiled.ok, log=compiled.log, sha256=compiled.sha256, size=compiled.size)
            if not compiled.ok:
                (folder / "built.so").unlink(missing_ok=True)
            if compiled.lasting:
                self._cache.publish(key, folder, entry)
        return _Done(entry=entry, cached=False, seconds=seconds)


def _jobs(cores: int) -> int:
    """Builds at a time: a core each, as far as memory goes."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, int(memory // _HEAVY_BYTES)))


def _refusal(request: BuildRequest, why: str) -> Build:
    return Build(name=request.name, key="", tier="none", cached=False, seconds=0.0, ok=False, log=why)
