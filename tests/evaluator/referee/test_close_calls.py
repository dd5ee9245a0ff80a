"""On a GPU processes are compared once a close call's candidate has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.evaluator.referee.timing.baseline.measured_baselines import Baselines
from kernelwright.evaluator.referee.timing.candidate_timer import CandidateTimer, TimedCandidate
from kernelwright.evaluator.referee.timing.claimed_time import Batch
from kernelwright.evaluator.referee.timing.policy import ASSUMED_SPREAD
from kernelwright.evaluator.referee.timing.speedup import BaselineFacts, measurement
from kernelwright.evaluator.schema.errors import DeviceFull
from kernelwright.evaluator.schema.evaluation import Measurement
from tests.evaluator.referee.test_speedup import _timing


class _BaselineTimer:
    """Baselines of 1 ms whose processes differ by 0.1 %, or for which there is no room."""

    def __init__(self, known: Baselines, full: str = "") -> None:
        self.known, self.full, self.asked = known, full, list[str]()

    def measure(self) -> Baselines:
        return self.known

    lay_out_alone = measure

    def start_compared(self) -> None:
        self._ask("start")

    def compare_processes(self, found: Baselines, *, queued: bool) -> None:
        self._ask("compare")
        found.spreads[queued] = 0.001

    def time_alone(self, found: Baselines, count: int, queued: bool) -> Any:
        self._ask("time alone")
        return _timing([1.0] * 24)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what == self.full:
            raise DeviceFull("no room")


def _timed(
    own_ms: float, *, queued: bool = True, full: str = "", eager_ms: float = 1.0
) -> tuple[CandidateTimer, Measurement, list[str]]:
    """A timer whose last candidate took so long, its measurement, and what is asked of its baselines."""
    known = Baselines(cast(Any, None), True, BaselineFacts(1.0, 0.002, None, None), 64, None, 0, None)
    known.buffers = cast(Any, SimpleNamespace(queue_behind=lambda *gate: None))
    timer: Any = object.__new__(CandidateTimer)
    timer._kind, timer.baselines = "cuda", _BaselineTimer(known, full)
    candidate, eager, batch = (
        _timing([own_ms] * 24),
        _timing([eager_ms] * 24),
        Batch("cuda", 8, queued=queued),
    )
    found = measurement(candidate, eager, batch, known.beside(queued))
    timer._last = TimedCandidate(candidate, eager, batch, found)
    return timer, found, timer.baselines.asked


def _rechecked(timer: CandidateTimer, found: Measurement) -> Measurement:
    if not timer.needs_recheck(found):
        return found
    timer.start_compared(found)
    return timer.recheck(found)


def test_a_clear_win_takes_no_more_processes():
    timer, found, asked = _timed(0.5)
    assert _rechecked(timer, found).spread_assumed
    assert asked == []


def test_a_close_call_is_told_by_how_much_processes_differ_and_once_for_all_candidates():
    timer, found, asked = _timed(0.99)
    rechecked = _rechecked(timer, found)
    assert (rechecked.process_spread, rechecked.spread_assumed) == (0.001, False)
    assert rechecked.speedup == found.speedup
    assert asked == ["start", "compare"]
    assert not timer.needs_recheck(found)


def test_a_baseline_slowed_beside_a_clear_winner_is_timed_alone_and_no_processes_are_compared():
    timer, found, asked = _timed(0.5, eager_ms=1.3)
    assert found.contended
    _rechecked(timer, found)
    assert asked == ["time alone"]


@pytest.mark.parametrize("full", ["start", "compare"])
def test_without_room_for_more_processes_a_close_call_keeps_what_is_assumed(full):
    timer, found, _ = _timed(0.99, full=full)
    rechecked = _rechecked(timer, found)
    assert (rechecked.process_spread, rechecked.spread_assumed) == (
        (ASSUMED_SPREAD, True) if full == "compare" else (0.001, False)
    )


def test_nothing_is_assumed_of_launches():
    timer, found, asked = _timed(0.5, queued=False)
    assert not _rechecked(timer, found).spread_assumed
    assert asked == ["start", "compare"]
    timer, found, _ = _timed(0.5, queued=False, full="compare")
    with pytest.raises(DeviceFull):
        _rechecked(timer, found)
