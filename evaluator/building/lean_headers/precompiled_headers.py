"""Precompiles the lean headers, once per set of compiler flags that is used again.

The compiler checks that a precompiled header fits and reads the ordinary one where it does not, so nothing
here is part of a build's content address.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_cache import BuildCache
from kernelwright.evaluator.building.build_plan import OUTPUT, PRECOMPILABLE, BuildPlan
from kernelwright.evaluator.building.lean_headers.lean_headers import LeanHeaders
from kernelwright.evaluator.building.sandboxed_build import BuildSandbox
from kernelwright.evaluator.schema.record import sha256_text

_CLANG_FLAGS: Final = ("-fpch-instantiate-templates",)
_OWN_MACRO: Final = re.compile(r"-D(?:_GLIBCXX|TORCH_API)")
_SETTING: Final = re.compile(r"-(?:O|f|m|std=|g|pthread|D_GLIBCXX|DTORCH_API|isystem$)")


class PrecompiledHeaders:
    """Those of one set of lean headers; usable from any thread."""

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
