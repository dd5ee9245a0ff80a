"""Builds a candidate's extensions in a sandbox, once each, and caches them.

A bad request, a compile error or a time-out is a result; a missing compiler or a full disk is an exception.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import BuildPlan, HeaderSet, plan_build
from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest, InvalidRequest
from kernelwright.evaluator.building.flags import Flags, instrumented_flags, screen_flags
from kernelwright.evaluator.building.lean_headers.header_tiers import HeaderTiers
from kernelwright.evaluator.building.lean_headers.suspicion import (
    first_error,
    is_error_suspect,
    is_library_suspect,
)
from kernelwright.evaluator.building.policy import FULL_BUILD_BYTES
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox, Compiled
from kernelwright.evaluator.building.toolchain import Toolchain, find_toolchain
from kernelwright.evaluator.host.device_lock import DeviceLock
from kernelwright.evaluator.host.hardware import gpu_of
from kernelwright.evaluator.sandbox import Launcher
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.evaluation import Build, Evaluation
from kernelwright.evaluator.schema.record import Record

_TORCH_INCLUDES: Final = ("torch/", "ATen/", "c10/")
"""Folders of torch's headers; a source that includes from none gains nothing from lean headers."""


class FullHeaderBuild(Record):
    """The result of rebuilding everything with torch's full headers."""

    ok: bool | None
    """None where it could not be tried."""
    why: str = ""
    """The compiler's first error, or why it was not tried."""


@dataclass(slots=True)
class _Waiting:
    """The time limit of one request, and the time it has waited."""

    timeout_s: float
    waited_s: float = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of this block as waiting."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - began


class Builder:
    """Turns requests into libraries; usable from any thread."""

    def __init__(self, *, cache: Path, launcher: Launcher, tier: SandboxTier) -> None:
        """Open the cache, or raise MachineError; compilers are looked for by the first build."""
        self._cache = BuildCache(cache)
        self._launcher = launcher
        self._tier = tier
        self._workers = len(os.sched_getaffinity(0))
        self._slots = threading.BoundedSemaphore(self._workers)
        self._full_slots = threading.BoundedSemaphore(_full_jobs(self._workers))
        self._guard = threading.Lock()
        self._tiers: HeaderTiers | None = None

    @property
    def toolchain(self) -> Toolchain:
        """Compilers, headers and libraries of this machine; raises what `find_toolchain` raises."""
        return self.tiers.toolchain

    @property
    def tiers(self) -> HeaderTiers:
        """The header tiers, which all threads share; raises what `find_toolchain` raises."""
        with self._guard:
            if self._tiers is None:
                toolchain = find_toolchain()
                sandbox = BuildSandbox(launcher=self._launcher, tier=self._tier, toolchain=toolchain)
                self._tiers = HeaderTiers(sandbox, self._cache)
            return self._tiers

    def prepare(self) -> bool:
        """Make the lean headers (half a minute); False if they do not fit. Raises what `build` raises."""
        return self.tiers.lean(make=True) is not None

    def prepare_ahead(self) -> None:
        """Prepare in the background; a failure is raised by the builds that need the lean headers."""
        threading.Thread(target=self._prepare_quietly, name="lean-headers", daemon=True).start()

    def _prepare_quietly(self) -> None:
        with suppress(MachineError):
            self.prepare()

    def build(
        self, request: BuildRequest, *, architecture: str | None, timeout_s: float, instrumented: bool = False
    ) -> BuildOutcome:
        """Build a request or take it from the cache; `architecture` such as `sm_90`, None for the CPU.

        With `instrumented`, host code checks its own memory accesses; the library needs a runtime preloaded.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        pending = _Waiting(timeout_s)
        with pending.waiting():
            self.tiers.full()  # the first build looks for compilers
        try:
            flags = screen_flags(request)
            if instrumented:
                flags = instrumented_flags(flags)
            plan_with = partial(
                plan_build, request, flags, toolchain=self.toolchain, architecture=architecture
            )
            plan, done = self._build_with_tiers(request, plan_with, pending)
        except InvalidRequest as fault:
            refusal = Build(
                name=request.name, key="", tier="none", cached=False, seconds=0.0, ok=False, log=str(fault)
            )
            return BuildOutcome(build=refusal)
        return self._outcome(request, flags, plan, done).model_copy(update={"waited_s": pending.waited_s})

    def rebuild(self, evaluation: Evaluation) -> FullHeaderBuild:
        """Rebuild the lean builds of an evaluation with torch's full headers; raises what `build` raises."""
        device = evaluation.environment.device if evaluation.environment else "cpu"
        gpu = gpu_of(device)
        lean = [build for build in evaluation.builds if build.ok and build.tier == "lean"]
        if lean and device != "cpu" and gpu is None:
            return FullHeaderBuild(ok=None, why=f"there is no {device} here to build for")
        with closing(DeviceLock("cpu")) as lock:
            for build in lean:
                if device == "cpu":
                    lock.share()  # no kernel is timed beside a compiler
                again = self.rebuild_with_full_headers(
                    build.key,
                    architecture=gpu.architecture if gpu else None,
                    timeout_s=evaluation.config.limits.build_s,
                )
                if again is None:
                    return FullHeaderBuild(ok=None, why=f"the build cache no longer holds {build.name}")
                if not again.ok:
                    return FullHeaderBuild(ok=False, why=f"{build.name}: {first_error(again.log)}")
        return FullHeaderBuild(ok=True)

    def rebuild_with_full_headers(
        self, key: str, *, architecture: str | None, timeout_s: float
    ) -> Build | None:
        """Build the request behind a cached library anew; None if it is not known."""
        text = self._cache.request(key)
        try:
            request = BuildRequest.model_validate_json(text or "")
        except ValidationError:  # absent, or written by another version
            return None
        request = request.model_copy(update={"full_headers": True})
        return self.build(request, architecture=architecture, timeout_s=timeout_s).build

    def _build_with_tiers(
        self, request: BuildRequest, plan_with: Callable[..., BuildPlan], pending: _Waiting
    ) -> tuple[BuildPlan, Compiled]:
        """Take the first tier that builds, or whose failure is not suspect."""
        full = self.tiers.full()
        plan = plan_with(headers=full)
        tiers = [full]
        if not request.full_headers:
            # Making the lean headers takes about as long as one build without them.
            would_gain = any(name in text for name in _TORCH_INCLUDES for text in plan.files.values())
            with pending.waiting():
                tiers = self.tiers.headers(make=would_gain and not self._cache.has(plan.key))
        spent_s = cpu_s = 0.0
        for headers in tiers:
            plan = plan_with(headers=headers)
            done = self._find_or_build(plan, headers, pending)
            spent_s += done.seconds
            cpu_s += done.cpu_s
            if not done.entry.retry:
                break
        return plan, replace(done, seconds=spent_s, cpu_s=cpu_s)

    def _outcome(self, request: BuildRequest, flags: Flags, plan: BuildPlan, done: Compiled) -> BuildOutcome:
        entry = done.entry
        build = Build(
            name=request.name,
            key=plan.key,
            tier=plan.tier,
            cached=done.cached,
            seconds=done.seconds,
            cpu_seconds=done.cpu_s,
            ok=entry.ok,
            timed_out=done.timed_out,
            log=entry.log,
            notes=tuple(flags.notes),
        )
        library = self._cache.shared_object(plan.key) if entry.ok else None
        if library is not None and plan.tier == "lean":
            self._cache.add_request(plan.key, request.model_dump_json())
        return BuildOutcome(
            build=build,
            shared_object=library,
            sources=dict(plan.files),
            suspect=library is not None and plan.tier == "lean" and is_library_suspect(library),
        )

    def _find_or_build(self, plan: BuildPlan, headers: HeaderSet, pending: _Waiting) -> Compiled:
        """Take a build from the cache, where another thread or process may be about to put it."""
        key = plan.key
        found = self._cache.find(key)
        if found is None:
            with ExitStack() as stack:
                with pending.waiting():
                    stack.enter_context(self._cache.building(key))
                found = self._cache.find(key)
                if found is None:
                    return self._compile(plan, headers, pending)
        return Compiled(found, cached=True)

    def _compile(self, plan: BuildPlan, headers: HeaderSet, pending: _Waiting) -> Compiled:
        lean = plan.tier == "lean"
        sandbox = self.tiers.sandbox(plan)
        with ExitStack() as stack:
            with pending.waiting():
                precompiled = self.tiers.precompiled_for(plan)
                if not lean:
                    stack.enter_context(self._full_slots)
                stack.enter_context(self._slots)
            folder = stack.enter_context(self._cache.staged())
            started = time.monotonic()
            library = folder / "built.so"
            run = partial(sandbox.run, plan, library, timeout_s=pending.timeout_s, workers=self._workers)
            compiled = run(search_first=precompiled)
            if precompiled is not None and compiled.rejects_precompiled:
                compiled = run()
            seconds = time.monotonic() - started
            entry = compiled.entry
            if not entry.ok:
                library.unlink(missing_ok=True)
                if lean and compiled.reproducible:
                    dirs = headers.include_dirs, self.tiers.full().include_dirs
                    entry = entry.model_copy(update={"retry": is_error_suspect(entry.log, *dirs)})
            if compiled.reproducible:
                self._cache.publish(plan.key, folder, entry)
        return replace(compiled, entry=entry, seconds=seconds)


def _full_jobs(cores: int) -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, int(memory // FULL_BUILD_BYTES)))
