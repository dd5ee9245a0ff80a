"""Precompiled lean headers, one per set of compiler flags, made when a set is used again.

A precompiled header is only a shortcut: the compiler checks that it fits and reads the ordinary header where
it does not, so nothing here is part of a build's content address.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import OUTPUT, PRECOMPILABLE, Plan
from kernelwright.evaluator.building.lean_headers.lean_headers import LeanHeaders
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox
from kernelwright.evaluator.schema.record import sha256_text

_MOST: Final = 12
"""Headers kept per toolbox; each is about 80 MB, and 15 MB of clang's."""
_WORTH_IT: Final = 2
"""Uses of a set of flags in one process before its header is made: g++ takes as long as five builds save."""
_CLANG: Final = ("-fpch-instantiate-templates",)
"""With it clang makes a header in the time one build takes, and builds take a quarter of that."""
_OWN_MACRO: Final = re.compile(r"-D(?:_GLIBCXX|TORCH_API)")
_SETTING: Final = re.compile(r"-(?:O|f|m|std=|g|pthread|D_GLIBCXX|DTORCH_API|isystem$)")


class PrecompiledHeaders:
    """The precompiled headers of one toolbox; usable from any thread."""

    def __init__(self, toolbox: LeanHeaders, cache: BuildCache) -> None:
        self._toolbox = toolbox
        self._cache = cache
        self._uses: Counter[str] = Counter()
        self._guard = threading.Lock()

    def folder_for(self, command: tuple[str, ...], sandbox: BuildSandbox, *, timeout_s: float) -> Path | None:
        """The folder to search first when running a compile command; None while none is worth it."""
        clang = self._toolbox.toolchain.cxx.is_clang
        if clang and _brings_macros(command):
            return None  # clang would not see that they change what the header says
        settings = (*_settings(command), *(_CLANG if clang else ()))
        key = sha256_text("\0".join(settings))[:24]
        folder = self._toolbox.folder / "precompiled" / key
        if folder.exists():
            return folder
        with self._guard:
            self._uses[key] += 1
            if self._uses[key] < (1 if clang else _WORTH_IT) or len(list(folder.parent.glob("*"))) >= _MOST:
                return None
        with self._cache.building(f"{self._toolbox.folder.name[:24]}-{key}"):
            if not folder.exists():
                self._make(folder, settings, sandbox, timeout_s)
        return folder

    def _make(self, folder: Path, settings: tuple[str, ...], sandbox: BuildSandbox, timeout_s: float) -> None:
        header = self._toolbox.include_dir / PRECOMPILABLE
        plan = Plan(
            tier="precompiled",
            files={},
            compile=(),
            link=(*settings, "-x", "c++-header", str(header), "-o", OUTPUT),
            module_name="",
            identity="",
        )
        with self._cache.staged() as staged:
            made = staged / f"{PRECOMPILABLE}.gch"
            made.parent.mkdir()
            # Beside its product, because an include that comes second looks for the header itself.
            shutil.copyfile(header, staged / PRECOMPILABLE)
            if not sandbox.run(plan, made, timeout_s=timeout_s, workers=1).ok:
                made.unlink()  # an empty folder: never tried again, never found by the compiler
            self._cache.put_in_place(staged, folder)


def _settings(command: tuple[str, ...]) -> tuple[str, ...]:
    """The compiler and the flags a precompiled header depends on; a candidate's own macros are not."""
    kept = [command[0]]
    for before, word in pairwise(command):
        if _SETTING.match(word) or before == "-isystem":
            kept.append(word)
    return tuple(kept)


def _brings_macros(command: tuple[str, ...]) -> bool:
    return any(word.startswith(("-D", "-U")) and not _OWN_MACRO.match(word) for word in command)
