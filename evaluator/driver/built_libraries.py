"""Copies of built libraries for one process: each once, and not more than fits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelwright.evaluator.building.build_request import BuildOutcome
from kernelwright.evaluator.driver.policy import MOST_BUILDS, MOST_LIBRARY_BYTES
from kernelwright.evaluator.ipc.driver_requests import BuildFinished


@dataclass(slots=True)
class BuiltLibraries:
    """The libraries of one process, in a folder it reads."""

    folder: Path
    seen: Callable[[Path], Path]
    """Says where the process sees a path."""
    answers: dict[str, BuildFinished] = field(default_factory=dict)
    """By request; an equal one is answered the same, as torch loads an extension once a process."""
    size: int = 0
    """Bytes copied into the folder."""

    def recall(self, request: object) -> BuildFinished | None:
        """The answer to a request that needs no build: one given before, or that there were enough."""
        known = self.answers.get(_name(request))
        if known is None and len(self.answers) >= MOST_BUILDS:
            log = f"not built: more than {MOST_BUILDS} different builds"
            return BuildFinished(ok=False, log=log, refused=True)
        return known

    def hand_over(self, request: object, outcome: BuildOutcome) -> BuildFinished:
        """Copy what was built into the folder."""
        build, library = outcome.build, outcome.shared_object
        answer = BuildFinished(
            ok=build.ok,
            log=build.log,
            module_name=build.name,
            timed_out=build.timed_out,
            suspect=outcome.suspect,
        )
        if library is not None:
            size = library.stat().st_size
            if self.size + size > MOST_LIBRARY_BYTES:
                log = f"not built: more than {MOST_LIBRARY_BYTES >> 20} MiB of libraries"
                answer = BuildFinished(ok=False, log=log, refused=True)
            else:
                copy = self.folder / f"{len(self.answers)}-{library.name}"
                shutil.copyfile(library, copy)
                copy.chmod(0o755)
                self.size += size
                answer = replace(answer, path=str(self.seen(copy)))
        self.answers[_name(request)] = answer
        return answer


def _name(request: object) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
