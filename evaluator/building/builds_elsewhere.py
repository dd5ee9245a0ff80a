"""Builds on a machine without a device, for the build caches of machines that evaluate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building.build_cache import BuildCache, PackedBuild
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.policy import MAX_PACKED_BYTES
from kernelwright.evaluator.building.predicted_builds import predicted_builds
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.config import EvaluationConfig

_FOLDER: Final = "builds"
"""The build cache's place in an evaluator's cache."""


class BuildsElsewhere:
    """Builds what candidates' texts announce; a prediction that was wrong is a build that nobody asks for.

    An entry is named after everything that it depends on: where compiler, torch or headers of an evaluating
    machine differ, that machine does not find it and builds anew.
    """

    def __init__(self, cache: Path, config: EvaluationConfig) -> None:
        """`cache` is the folder of an evaluator's cache; `config` gives the sandbox and the time limit.

        Raises:
            MachineError: no sandbox works here, or the cache cannot be written.
        """
        self._launcher = Launcher()
        root = cache / _FOLDER
        self._timeout_s = config.limits.build_s
        self._builder = Builder(cache=root, launcher=self._launcher, tier=strongest(config.sandbox))
        self._cache = BuildCache(root)

    def build(self, source: str, architecture: str | None) -> list[PackedBuild]:
        """Return the builds of a candidate for an architecture such as `sm_90`, None for a CPU.

        Raises:
            MachineError: compiler, sandbox or disk failed.
        """
        keys = [
            self._builder.build(request, architecture=architecture, timeout_s=self._timeout_s).build.key
            for request in predicted_builds(source)
        ]
        packed = (self._cache.pack(key, most_bytes=MAX_PACKED_BYTES) for key in keys if key)
        return [each for each in packed if each is not None]

    def close(self) -> None:
        """End every process."""
        self._launcher.close()


def store_builds(cache: Path, builds: Iterable[PackedBuild]) -> None:
    """Add builds of another machine to the cache of an evaluator here.

    Raises:
        MachineError: one came damaged, or the cache cannot be written.
    """
    store = BuildCache(cache / _FOLDER)
    for each in builds:
        store.unpack(each)
