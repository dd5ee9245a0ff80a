"""What one process is handed of what it asks to be built: each library once, and not more than fits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kernelwright.evaluator.building.build_request import BuildOutcome
from kernelwright.evaluator.ipc.channel import Message

MOST_BUILDS: Final = 64
"""Different builds a process may ask for."""
MOST_BYTES: Final = 1 << 30
"""Of all libraries together that a process is handed; they lie outside its sandbox."""


@dataclass(slots=True)
class BuiltLibraries:
    """The libraries of one process, in a folder it reads."""

    folder: Path
    answers: dict[str, Message] = field(default_factory=dict)
    """By request; an equal one is answered the same, as torch loads an extension once a process."""
    size: int = 0
    """Bytes copied into the folder."""

    def recall(self, request: object) -> Message | None:
        """The answer to a request that needs no build: one given before, or that there were enough."""
        known = self.answers.get(_name(request))
        if known is None and len(self.answers) >= MOST_BUILDS:
            return _refusal(f"more than {MOST_BUILDS} different builds")
        return known

    def hand_over(self, request: object, outcome: BuildOutcome, *, seen: Callable[[Path], Path]) -> Message:
        """Copy what was built into the folder; `seen` says where the process sees a path."""
        build, library = outcome.build, outcome.shared_object
        answer: Message = {
            "ok": build.ok,
            "path": "",
            "module_name": outcome.module_name,
            "log": build.log,
            "timed_out": build.timed_out,
            "doubtful": outcome.suspect,
        }
        if library is not None:
            size = library.stat().st_size
            if self.size + size > MOST_BYTES:
                answer = _refusal(f"more than {MOST_BYTES >> 20} MiB of libraries")
            else:
                copy = self.folder / f"{len(self.answers)}-{library.name}"
                shutil.copyfile(library, copy)
                copy.chmod(0o755)
                self.size += size
                answer["path"] = str(seen(copy))
        self.answers[_name(request)] = answer
        return answer


def _refusal(why: str) -> Message:
    """The answer to what will not be built, though a compiler might have done it."""
    return {"ok": False, "path": "", "module_name": "", "log": f"not built: {why}", "refused": True}


def _name(request: object) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
