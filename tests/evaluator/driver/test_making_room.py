"""Evaluations on a full device: idle referees go first, then others, and only then is it an error."""

from collections.abc import Iterator

import pytest

from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.device_scheduler import DeviceScheduler
from kernelwright.evaluator.schema.errors import DeviceFull


def attempts(*fits: bool, others: bool = False, device: str = "cuda:0") -> Iterator[bool]:
    """Make attempts, of which some fit; yield of each whether it was alone. `others` leave a referee idle."""
    devices, seen = DeviceScheduler(), []
    devices.enter([device], warm=lambda one: False, stop=CancelToken())
    rooms, left = iter([others, False]), list(fits)

    def attempt(alone: bool) -> str:
        seen.append(alone)
        if not left.pop(0):
            raise DeviceFull("no room")
        return "answer"

    try:
        made = devices.alone_if_full(
            device, attempt, make_room=lambda: next(rooms, False), stop=CancelToken()
        )
        assert made == "answer"
    finally:
        yield from seen


def test_where_there_is_room_one_attempt_is_enough():
    assert list(attempts(True)) == [False]


def test_idle_referees_go_first():
    assert list(attempts(False, True, others=True)) == [False, False]


def test_then_it_is_evaluated_alone():
    assert list(attempts(False, False, True, others=True)) == [False, False, True]
    assert list(attempts(False, True)) == [False, True]


def test_what_does_not_fit_alone_does_not_fit():
    with pytest.raises(DeviceFull):
        list(attempts(False, False))


def test_on_a_cpu_nobody_makes_room_who_is_not_there():
    tried = attempts(False, device="cpu")
    assert next(tried) is False
    with pytest.raises(DeviceFull):
        next(tried)
