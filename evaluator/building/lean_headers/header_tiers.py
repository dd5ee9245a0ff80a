"""Chooses the headers a build is tried with: the lean ones where they fit this machine, then torch's own."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import BuildPlan, HeaderSet, full_headers
from kernelwright.evaluator.building.lean_headers.lean_headers import (
    LeanHeaders,
    UnfitLeanHeaders,
    lean_headers_key,
    make_lean_headers,
)
from kernelwright.evaluator.building.lean_headers.precompiled_headers import PrecompiledHeaders
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox

_log = logging.getLogger(__name__)


class HeaderTiers:
    """The header tiers of one builder; threads that need the lean headers wait while they are made."""

    def __init__(self, sandbox: BuildSandbox, cache: BuildCache) -> None:
        self._sandbox = sandbox
        self._cache = cache
        self._guard = threading.Lock()
        self._unfit = False
        self._lean: LeanHeaders | None = None
        self._precompiled: PrecompiledHeaders | None = None

    def full(self) -> HeaderSet:
        return full_headers(self._sandbox.toolchain)

    def headers(self, *, make: bool) -> list[HeaderSet]:
        """The tiers to try, fastest first; raises what `lean` raises."""
        lean = self.lean(make=make)
        return [lean.headers(), self.full()] if lean else [self.full()]

    def precompiled_for(self, plan: BuildPlan) -> Path | None:
        """The folder of precompiled headers that fits a plan's C++ command; None without one."""
        if plan.tier != "lean" or self._precompiled is None:
            return None
        own = str(self._sandbox.toolchain.cxx.path)
        command = next((command for command in plan.compile if command[0] == own), None)
        if command is None or len(plan.compile) > 1:
            return None  # nvcc dominates such a build
        return self._precompiled.folder_for(command, self.sandbox(plan))

    def sandbox(self, plan: BuildPlan) -> BuildSandbox:
        """The sandbox to run a plan in: builds that need the lean headers see them."""
        if plan.tier != "lean" or self._lean is None:
            return self._sandbox
        return self._sandbox.with_folder(self._lean.folder)

    def lean(self, *, make: bool) -> LeanHeaders | None:
        """The lean headers, with `make` made now if this machine has none; None without any that fit.

        Raises:
            MachineError: sandbox or disk failed.
        """
        with self._guard:
            if self._lean is None and not self._unfit:
                self._lean = self._find_or_make(make=make)
                if self._lean is not None:
                    self._precompiled = PrecompiledHeaders(self._lean, self._cache)
        return self._lean

    def _find_or_make(self, *, make: bool) -> LeanHeaders | None:
        place = self._cache.root / "toolboxes" / lean_headers_key(self._sandbox.toolchain)
        unfit = place.with_suffix(".unfit")
        if place.exists():
            return LeanHeaders(place, self._sandbox.toolchain)
        if not make:
            return None
        with self._cache.building(f"lean-headers-{place.name}"):
            self._unfit = unfit.exists()
            if not place.exists() and not self._unfit:
                self._make(place, unfit)
        return None if self._unfit else LeanHeaders(place, self._sandbox.toolchain)

    def _make(self, place: Path, unfit: Path) -> None:
        with self._cache.staged() as staged:
            try:
                make_lean_headers(staged, self._sandbox)
            except UnfitLeanHeaders as error:
                _log.warning("building with torch's own headers, which is slower: %s", error)
                self._unfit = True
                place.parent.mkdir(parents=True, exist_ok=True)
                unfit.write_text(str(error))
            else:
                self._cache.put_in_place(staged, place)
