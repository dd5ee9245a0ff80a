"""Asking a contestant what ran, and the driver what was built. Never convicts, never raises."""

from __future__ import annotations

import math
from typing import Any, Final

from kernelwright.evaluator.analysis.attribution import Event, attribute
from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import CandidateFailed, WorkerProcess
from kernelwright.evaluator.schema.evaluation import Attribution

_PROFILE_S: Final = 30.0


def attribution(ground: ProblemContext, side: WorkerProcess, source: str) -> Attribution:
    """The track of a candidate that has been verified; afterwards the side may be gone."""
    symbols = Symbols.model_validate(ground.driver.call("symbols", id=side.id))
    try:
        side.thaw()
        reply = side.ask({"op": "profile", "layout": "verify", "model": "m"}, _PROFILE_S)
    except CandidateFailed as verdict:
        return attribute([], symbols, source, trouble=verdict.detail[:200])
    return attribute(_events(reply.get("events")), symbols, source)


def _events(claimed: Any) -> list[Event]:  # Any: whatever the contestant sent
    """The well-formed part of a claim."""
    if not isinstance(claimed, list):
        return []
    events = []
    for entry in claimed[:1000]:
        match entry:
            case [str(kind), str(name), float() | int() as ms] if math.isfinite(ms):
                events.append(Event(kind[:16], name[:300], float(ms)))
            case _:
                continue
    return events
