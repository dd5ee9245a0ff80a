"""Builds what a candidate's text announces: before a referee is free, or on a machine without a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building.build_cache import BuildCache, PackedBuild
from kernelwright.evaluator.building.build_request import BuildRequest
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.policy import MAX_PACKED_BYTES
from kernelwright.evaluator.building.predicted_builds import predicted_builds, unavoidable_build
from kernelwright.evaluator.host.hardware import gpu_of
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import MachineError
from kernelwright.evaluator.schema.evaluation import Build

_TORCH_BUILDER: Final = "cpp_extension"
"""A source that names torch's builder will need the headers of fast builds."""
_FOLDER: Final = "builds"
"""The build cache's place in an evaluator's cache."""


class BuildsAhead:
    """Builds of one candidate in threads of their own; it finds them, or joins them, when it asks for them.

    A failure is left to the build that the candidate asks for, which meets it again. On a CPU there are none:
    its cores are not free for them.
    """

    def __init__(
        self,
        builder: Builder,
        requests: Sequence[BuildRequest],
        *,
        architecture: str | None,
        timeout_s: float,
    ) -> None:
        """Begin builds for an architecture, None for a CPU."""
        self._builder, self._architecture, self._timeout_s = builder, architecture, timeout_s
        self._built: dict[str, Build] = {}
        self._threads = [
            threading.Thread(target=self._build_quietly, args=(request,), name="build-ahead", daemon=True)
            for request in requests
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def of(cls, builder: Builder, source: str, config: EvaluationConfig, device: str) -> BuildsAhead:
        """Begin the builds that a candidate's text announces, if it is for a GPU."""
        if _TORCH_BUILDER in source:
            builder.prepare_ahead()
        gpu = gpu_of(device)
        requests = predicted_builds(source) if gpu is not None else []
        architecture = gpu.architecture if gpu is not None else None
        return cls(builder, requests, architecture=architecture, timeout_s=config.limits.build_s)

    def _build(self, request: BuildRequest) -> Build:
        return self._builder.build(request, architecture=self._architecture, timeout_s=self._timeout_s).build

    def _build_quietly(self, request: BuildRequest) -> None:
        with suppress(MachineError):
            done = self._build(request)
            self._built[done.key] = done

    def wait(self, is_stopped: Callable[[], bool], look_s: float) -> None:
        """Wait until all have ended, or the evaluation is to end, which is asked every `look_s` seconds."""
        for thread in self._threads:
            while thread.is_alive() and not is_stopped():
                thread.join(look_s)

    def fatal(self, source: str) -> Build | None:
        """Return the failed build without which a candidate's module does not load; None without one.

        For use after `wait`. A failure that need not repeat itself is built again, as it is when a candidate
        asks. Raises what `Builder.build` raises.
        """
        if all(build.ok for build in self._built.values()):
            return None
        request = unavoidable_build(source)
        if request is None:
            return None
        build = self._build(request)
        return None if build.ok or build.timed_out else self.as_built(build)

    def as_built(self, build: Build) -> Build:
        """Return the record of a build with the time it took here, the first time it is asked for."""
        return self._built.pop(build.key, build) if build.cached else build


class BuildsElsewhere:
    """Builds what candidates' texts announce; a prediction that was wrong is a build that nobody asks for.

    An entry is named after everything that it depends on: where compiler, torch or headers of an evaluating
    machine differ, that machine does not find it and builds anew.
    """

    def __init__(self, cache: Path, config: EvaluationConfig) -> None:
        """`cache` is an evaluator's, `config` gives sandbox and time limit; raises as `Builder` does."""
        self._launcher = Launcher()
        root = cache / _FOLDER
        self._timeout_s = config.limits.build_s
        self._builder = Builder(cache=root, launcher=self._launcher, tier=strongest(config.sandbox))
        self._cache = BuildCache(root)

    def build(self, source: str, architecture: str | None) -> list[PackedBuild]:
        """Return a candidate's builds for an architecture, None for a CPU; raises as `Builder.build` does."""
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
    """Add builds of another machine to an evaluator's cache; raises what `BuildCache.unpack` raises."""
    store = BuildCache(cache / _FOLDER)
    for each in builds:
        store.unpack(each)
