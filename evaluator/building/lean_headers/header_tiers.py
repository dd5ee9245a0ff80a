"""Chooses the headers a build is tried with: the lean ones where they fit this machine, then torch's own.

Lean ones are precompiled where that pays.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import (
    OUTPUT,
    PRECOMPILABLE,
    BuildPlan,
    HeaderSet,
    full_headers,
)
from kernelwright.evaluator.building.lean_headers.lean_headers import (
    LeanHeaders,
    UnfitLeanHeaders,
    lean_headers_key,
    make_lean_headers,
)
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox
from kernelwright.evaluator.building.toolchain import Toolchain
from kernelwright.evaluator.schema.record import sha256_text

_log = logging.getLogger(__name__)
_CLANG_FLAGS: Final = ("-fpch-instantiate-templates",)
_OWN_MACRO: Final = re.compile(r"-D(?:_GLIBCXX|TORCH_API)")
_SETTING: Final = re.compile(r"-(?:O|f|m|std=|g|pthread|D_GLIBCXX|DTORCH_API|isystem$)")


class HeaderTiers:
    """The header tiers of one builder; threads that need the lean headers wait while they are made."""

    def __init__(self, sandbox: BuildSandbox, cache: BuildCache) -> None:
        self._sandbox = sandbox
        self._cache = cache
        self._guard = threading.Lock()
        self._unfit = False
        self._lean: LeanHeaders | None = None
        self._precompiled: PrecompiledHeaders | None = None

    @property
    def toolchain(self) -> Toolchain:
        return self._sandbox.toolchain

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
        """The lean headers, made now with `make`; None without any that fit. Raises as `build` does."""
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


class PrecompiledHeaders:
    """Precompiled lean headers, once per set of compiler flags that is used again; usable from any thread.

    The compiler checks that one fits and reads the ordinary header where it does not, so nothing here is part
    of a build's content address.
    """

    def __init__(self, lean: LeanHeaders, cache: BuildCache) -> None:
        self._lean = lean
        self._cache = cache
        self._uses: Counter[str] = Counter()
        self._guard = threading.Lock()

    def folder_for(self, command: tuple[str, ...], sandbox: BuildSandbox) -> Path | None:
        """The folder to search first for a compile command; None while precompiling does not pay."""
        clang = self._lean.toolchain.cxx.is_clang
        macros = (word for word in command if word.startswith(("-D", "-U")))
        if clang and not all(map(_OWN_MACRO.match, macros)):
            return None  # clang would not notice that they change the header
        settings = (*_settings(command), *(_CLANG_FLAGS if clang else ()))
        key = sha256_text("\0".join(settings))[:24]
        folder = self._lean.folder / "precompiled" / key
        if folder.exists():
            return folder
        with self._guard:
            self._uses[key] += 1
            enough = policy.PRECOMPILE_AFTER_USES_CLANG if clang else policy.PRECOMPILE_AFTER_USES
            if self._uses[key] < enough or len(list(folder.parent.glob("*"))) >= policy.MAX_PRECOMPILED:
                return None
        with self._cache.building(f"{self._lean.folder.name[:24]}-{key}"):
            if not folder.exists():
                self._make(folder, settings, sandbox)
        return folder

    def _make(self, folder: Path, settings: tuple[str, ...], sandbox: BuildSandbox) -> None:
        header = self._lean.include_dir / PRECOMPILABLE
        plan = BuildPlan(
            tier="precompiled",
            files={},
            compile=(),
            link=(*settings, "-x", "c++-header", str(header), "-o", OUTPUT),
        )
        with self._cache.staged() as staged:
            made = staged / f"{PRECOMPILABLE}.gch"
            made.parent.mkdir()
            # Beside the precompiled one, because a later include looks for the header itself.
            shutil.copyfile(header, staged / PRECOMPILABLE)
            if not sandbox.run(plan, made, timeout_s=policy.PREPARE_S, workers=1).entry.ok:
                made.unlink()  # the folder without it marks the failure, and is not tried again
            self._cache.put_in_place(staged, folder)


def _settings(command: tuple[str, ...]) -> tuple[str, ...]:
    """The compiler and the flags a precompiled header depends on, which a candidate's macros are not."""
    pairs = pairwise(command)
    return (command[0], *(word for last, word in pairs if _SETTING.match(word) or last == "-isystem"))
