"""Builds a candidate's extensions in a sandbox, once each, and keeps them.

A bad request, a compile error or a time-out is an answer; a missing compiler or a full disk is an exception.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kernelwright.evaluator.building import instrumentation
from kernelwright.evaluator.building.build_cache import DEFAULT_MAX_BYTES, BuildCache, Entry
from kernelwright.evaluator.building.build_plan import BadRequest, Headers, Plan, plan_build
from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest
from kernelwright.evaluator.building.flags import Flags, RefusedFlag, screen_flags
from kernelwright.evaluator.building.lean_headers.error_blame import blames_headers
from kernelwright.evaluator.building.lean_headers.header_tiers import HeaderTiers
from kernelwright.evaluator.building.lean_headers.suspect_symbols import may_answer_wrongly
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox, Compiled
from kernelwright.evaluator.building.toolchain import Toolchain, find_toolchain
from kernelwright.evaluator.sandbox import Launcher
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.evaluation import Build

_HEAVY_BYTES: Final = 3 << 30
"""Memory a build with torch's real headers may need: g++ 1.3 GiB, nvcc 3 GiB."""

_SLOW: Final = ("torch/", "ATen/", "c10/")
"""What a source includes when torch's headers are what its build takes long for."""


@dataclass(frozen=True, slots=True)
class _Done:
    entry: Entry
    cached: bool
    seconds: float
    cpu_s: float = 0.0
    timed_out: bool = False


@dataclass(slots=True)
class _Order:
    """A request on its way."""

    timeout_s: float
    waited_s: float = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count what is done meanwhile as waiting."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - began


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
        self._workers = len(os.sched_getaffinity(0))
        self._slots = threading.BoundedSemaphore(jobs or self._workers)
        self._heavy_slots = threading.BoundedSemaphore(_heavy_jobs(jobs or self._workers))
        self._guard = threading.Lock()
        self._preparing = False
        self._flights: dict[str, Future[_Done]] = {}

    @cached_property
    def toolchain(self) -> Toolchain:
        """What this machine compiles with.

        Raises:
            MachineError: no compiler or no torch.
        """
        with self._guard:
            return find_toolchain()

    @cached_property
    def tiers(self) -> HeaderTiers:
        """The headers this machine can build with."""
        sandbox = BuildSandbox(launcher=self._launcher, tier=self._tier, toolchain=self.toolchain)
        with self._guard:
            return HeaderTiers(sandbox, self._cache)

    def prepare(self) -> bool:
        """Make what fast builds need, once per machine (half a minute); whether there is such a thing here.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        return self.tiers.prepare() is not None

    def prepare_ahead(self) -> None:
        """Begin to prepare and do not wait; what goes wrong is raised by the builds that need it."""
        with self._guard:
            begun, self._preparing = self._preparing, True
        if not begun:
            threading.Thread(target=self._prepare_quietly, name="lean-headers", daemon=True).start()

    def _prepare_quietly(self) -> None:
        with suppress(MachineError):
            self.prepare()

    def build(
        self, request: BuildRequest, *, architecture: str | None, timeout_s: float, instrumented: bool = False
    ) -> BuildOutcome:
        """Build a request, or find it built; `architecture` such as `sm_90`, None for the CPU.

        With `instrumented`, host code checks its own memory accesses; the library needs a runtime preloaded.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        order = _Order(timeout_s)
        with order.waiting():
            self.tiers.real()  # the first build looks for compilers
        try:
            flags = screen_flags(request)
            if instrumented:
                flags = instrumentation.instrumented(flags)
            plan_with = partial(
                plan_build, request, flags, toolchain=self.toolchain, architecture=architecture
            )
            plan, done = self._try_tiers(request, plan_with, order)
        except (RefusedFlag, BadRequest) as fault:
            return BuildOutcome(build=_refusal(request, str(fault)))
        return self._outcome(request, flags, plan, done).model_copy(update={"waited_s": order.waited_s})

    def build_plainly(self, key: str, *, architecture: str | None, timeout_s: float) -> Build | None:
        """Build what a library in the cache was built from with torch's own headers; None if it is not known.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        text = self._cache.request(key)
        try:
            request = BuildRequest.model_validate_json(text or "")
        except ValidationError:  # none, or another version's
            return None
        request = request.model_copy(update={"real_headers": True})
        return self.build(request, architecture=architecture, timeout_s=timeout_s).build

    def _try_tiers(
        self, request: BuildRequest, plan_with: Callable[..., Plan], order: _Order
    ) -> tuple[Plan, _Done]:
        """The first tier that builds, or whose failure is the candidate's own."""
        real = self.tiers.real()
        plan = plan_with(headers=real)
        tiers = [real]
        if not request.real_headers:
            # Making the lean headers takes about as long as one build without them.
            with order.waiting():
                tiers = self.tiers.headers(make=_would_gain(plan) and not self._cache.has(plan.key))
        spent_s = cpu_s = 0.0
        for headers in tiers:
            plan = plan_with(headers=headers)
            done = self._once(plan, headers, order)
            spent_s += done.seconds
            cpu_s += done.cpu_s
            if not done.entry.retry:
                break
        return plan, replace(done, seconds=spent_s, cpu_s=cpu_s)

    def _outcome(self, request: BuildRequest, flags: Flags, plan: Plan, done: _Done) -> BuildOutcome:
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
            self._cache.note_request(plan.key, request.model_dump_json())
        return BuildOutcome(
            build=build,
            shared_object=library,
            module_name=plan.module_name,
            sources=dict(plan.files),
            doubtful=library is not None and plan.tier == "lean" and may_answer_wrongly(library),
        )

    def _once(self, plan: Plan, headers: Headers, order: _Order) -> _Done:
        """Build a plan, or share the answer of the thread that is building it."""
        with self._guard:
            flight = self._flights.get(plan.key)
            mine = flight is None
            flight = flight or Future()
            self._flights[plan.key] = flight
        if not mine:
            with order.waiting():
                shared = flight.result()
            return _Done(entry=shared.entry, cached=True, seconds=0.0, timed_out=shared.timed_out)
        try:
            done = self._find_or_make(plan, headers, order)
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(done)
            return done
        finally:
            with self._guard:
                del self._flights[plan.key]

    def _find_or_make(self, plan: Plan, headers: Headers, order: _Order) -> _Done:
        key = plan.key
        found = self._cache.find(key)
        if found is None:
            with ExitStack() as stack:
                with order.waiting():
                    stack.enter_context(self._cache.building(key))
                found = self._cache.find(key)
                if found is None:
                    return self._make(plan, headers, order)
        return _Done(entry=found, cached=True, seconds=0.0)

    def _make(self, plan: Plan, headers: Headers, order: _Order) -> _Done:
        lean = plan.tier == "lean"
        sandbox = self.tiers.sandbox(plan)
        with ExitStack() as stack:
            with order.waiting():
                first = self.tiers.shortcut(plan) if lean else None
                if not lean:
                    stack.enter_context(self._heavy_slots)
                stack.enter_context(self._slots)
            folder = stack.enter_context(self._cache.staged())
            started = time.monotonic()
            library = folder / "built.so"
            run = partial(sandbox.run, plan, library, timeout_s=order.timeout_s, workers=self._workers)
            compiled = run(first=first)
            if first is not None and compiled.shuns_precompiled:
                compiled = run()
            seconds = time.monotonic() - started
            entry = Entry(
                ok=compiled.ok,
                log=compiled.log,
                retry=lean and _is_doubtful(compiled, headers),
                sha256=compiled.sha256,
                size=compiled.size,
            )
            if not compiled.ok:
                library.unlink(missing_ok=True)
            if compiled.lasting:
                self._cache.publish(plan.key, folder, entry)
        return _Done(
            entry=entry, cached=False, seconds=seconds, cpu_s=compiled.cpu_s, timed_out=compiled.timed_out
        )


def _would_gain(plan: Plan) -> bool:
    """Whether lean headers make a build faster."""
    return any(name in text for name in _SLOW for text in plan.files.values())


def _is_doubtful(compiled: Compiled, headers: Headers) -> bool:
    """Whether a failure under lean headers may be theirs; a time-out is not."""
    return not compiled.ok and compiled.lasting and blames_headers(compiled.log, headers.include_dirs)


def _heavy_jobs(cores: int) -> int:
    """Builds with real headers at a time: a core each, as far as memory goes."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, int(memory // _HEAVY_BYTES)))


def _refusal(request: BuildRequest, why: str) -> Build:
    return Build(name=request.name, key="", tier="none", cached=False, seconds=0.0, ok=False, log=why)
