"""Which headers a build is tried with: the lean ones where they fit this machine, then torch's own."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import Headers, Plan, real_headers
from kernelwright.evaluator.building.lean_headers.lean_headers import (
    LeanHeaders,
    UnfitLeanHeaders,
    make_toolbox,
    toolbox_key,
)
from kernelwright.evaluator.building.lean_headers.precompiled_headers import PrecompiledHeaders
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox

_log = logging.getLogger(__name__)

_PATIENCE_S: Final = 900.0
"""For the helper, whose build reads torch's real headers; for a precompiled header it is ample."""


class HeaderTiers:
    """The header tiers of one builder; whoever needs the toolbox while it is being made waits for it."""

    def __init__(self, sandbox: BuildSandbox, cache: BuildCache) -> None:
        self._sandbox = sandbox
        self._cache = cache
        self._guard = threading.Lock()
        self._unfit = False
        self._toolbox: LeanHeaders | None = None
        self._precompiled: PrecompiledHeaders | None = None

    def prepare(self) -> LeanHeaders | None:
        """The toolbox, made now if this machine has none yet; None where the lean headers do not fit.

        Raises:
            MachineError: sandbox or disk failed.
        """
        return self._look(make=True)

    def real(self) -> Headers:
        """Torch's own."""
        return real_headers(self._sandbox.toolchain)

    def headers(self, *, make: bool) -> list[Headers]:
        """What to try, fastest first; with `make`, the toolbox is made if there is none.

        Raises:
            MachineError: sandbox or disk failed.
        """
        toolbox = self._look(make=make)
        return [toolbox.headers(), self.real()] if toolbox else [self.real()]

    def shortcut(self, plan: Plan) -> Path | None:
        """The folder of precompiled headers that fits a plan's first C++ command."""
        if plan.tier != "lean" or self._precompiled is None:
            return None
        own = str(self._sandbox.toolchain.cxx.path)
        command = next((command for command in plan.compile if command[0] == own), None)
        if command is None or len(plan.compile) > 1:
            return None  # nvcc is slower anyway
        return self._precompiled.folder_for(command, self.sandbox(plan), timeout_s=_PATIENCE_S)

    def sandbox(self, plan: Plan) -> BuildSandbox:
        """Where to run a plan: the toolbox is visible to the builds that need it."""
        if plan.tier != "lean" or self._toolbox is None:
            return self._sandbox
        return self._sandbox.seeing(self._toolbox.folder)

    def _place(self) -> Path:
        return self._cache.root / "toolboxes" / toolbox_key(self._sandbox.toolchain)

    def _look(self, *, make: bool) -> LeanHeaders | None:
        with self._guard:
            if self._toolbox is None and not self._unfit:
                self._toolbox = self._find_or_make(self._place(), make=make)
                if self._toolbox is not None:
                    self._precompiled = PrecompiledHeaders(self._toolbox, self._cache)
        return self._toolbox

    def _find_or_make(self, place: Path, *, make: bool) -> LeanHeaders | None:
        unfit = place.with_suffix(".unfit")
        if place.exists():
            return LeanHeaders(place, self._sandbox.toolchain)
        if not make:
            return None
        with self._cache.building(f"toolbox-{place.name}"):
            self._unfit = unfit.exists()
            if not place.exists() and not self._unfit:
                self._make(place, unfit)
        return None if self._unfit else LeanHeaders(place, self._sandbox.toolchain)

    def _make(self, place: Path, unfit: Path) -> None:
        with self._cache.staged() as staged:
            try:
                make_toolbox(staged, self._sandbox, timeout_s=_PATIENCE_S)
            except UnfitLeanHeaders as error:
                _log.warning("building with torch's own headers, which is slower: %s", error)
                self._unfit = True
                place.parent.mkdir(parents=True, exist_ok=True)
                unfit.write_text(str(error))
            else:
                self._cache.put_in_place(staged, place)
