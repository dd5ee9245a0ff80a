"""Asking a contestant what ran, and the driver what was built. Never convicts, never raises."""

from __future__ import annotations

import math
from typing import Any, Final

from evaluator.attribution import Event, attribute
from evaluator.evaluation import Attribution
from evaluator.referee.lanes import Ground
from evaluator.referee.sides import Side, Verdict
from evaluator.symbols import Symbols

_PROFILE_S: Final = 30.0


def attribution(ground: Ground, side: Side, source: str) -> Attribution:
    """The track of a candidate that has been verified; afterwards the side may be gone."""
    symbols = Symbols.model_validate(ground.driver.call("symbols", id=side.id))
    try:
        side.thaw()
        reply = side.ask({"op": "profile", "layout": "verify", "model": "m"}, _PROFILE_S)
    except Verdict as verdict:
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
