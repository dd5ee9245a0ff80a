"""Evaluations on a full device: idle referees go first, then others, and only then is it an error."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelwright.evaluator.driver import device_scheduler
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.device_scheduler import DeviceScheduler
from kernelwright.evaluator.schema.errors import DeviceFull


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other program holds memory of the devices here, which need not exist."""
    monkeypatch.setattr(device_scheduler, "memory_in_use", lambda device: 0.0)


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
        made = devices.make_fit(device, attempt, make_room=lambda: next(rooms, False), stop=CancelToken())
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


class Card:
    """A device of so many places; an evaluation that finds none left fails at once."""

    name = "cuda:0"

    def __init__(self, places: int) -> None:
        self.places, self.used, self.guard = places, 0, threading.Lock()
        self.attempts: list[tuple[bool, bool]] = []
        """Of each attempt: was it alone, did it fit."""
        self.busiest = 0

    def evaluate(self, alone: bool, *, size: int = 1) -> None:
        with self.guard:
            fits = self.used + size <= self.places
            self.attempts.append((alone, fits))
            if not fits:
                raise DeviceFull("no room")
            self.used += size
            self.busiest = max(self.busiest, self.used)
        time.sleep(0.05)
        with self.guard:
            self.used -= size

    def evaluate_all(self, devices: DeviceScheduler, sizes: list[int]) -> int:
        """Evaluate so many at once; count those for which even the whole device was too small."""

        def one(size: int) -> bool:
            stop = CancelToken()
            device = devices.enter([self.name], warm=lambda one: False, stop=stop)
            try:
                devices.make_fit(
                    device,
                    lambda alone: self.evaluate(alone, size=size),
                    make_room=lambda: False,
                    stop=stop,
                )
            except DeviceFull:
                return True
            finally:
                devices.leave(device)
            return False

        with ThreadPoolExecutor(len(sizes)) as threads:
            return sum(threads.map(one, sizes, timeout=60))


def test_who_finds_the_device_full_waits_for_one_to_end_and_not_for_all():
    card, devices = Card(places=5), DeviceScheduler()
    assert card.evaluate_all(devices, [1] * 12) == 0
    assert card.busiest == 5
    assert sum(alone for alone, _ in card.attempts) <= 1, "one that enters before all have noticed"


def test_once_the_room_is_known_few_try_in_vain():
    card, devices = Card(places=5), DeviceScheduler()
    card.evaluate_all(devices, [1] * 12)
    card.attempts.clear()
    assert card.evaluate_all(devices, [1] * 40) == 0
    in_vain = sum(not fits for _, fits in card.attempts)
    assert 0 < in_vain <= 20, "each that fits raises the number that may enter, until one finds no room"
    assert card.busiest == 5


def test_what_needs_the_whole_device_gets_it_and_the_others_go_on_afterwards():
    card, devices = Card(places=5), DeviceScheduler()
    assert card.evaluate_all(devices, [1] * 8 + [5] + [1] * 8) == 0
    assert card.evaluate_all(devices, [6] + [1] * 8) == 1, "one too large costs others nothing"


def test_after_a_time_of_little_room_as_many_enter_as_before():
    card, devices = Card(places=2), DeviceScheduler()
    card.evaluate_all(devices, [1] * 6)
    card.places = 8
    card.evaluate_all(devices, [1] * 60)
    assert card.busiest > 2


@pytest.mark.parametrize(
    ("in_use", "fits"),
    [([0.9, 0.8, 0.4], True), ([0.3, 0.2], True), ([0.1], False), ([0.9] * 50, False)],
)
def test_memory_that_other_programs_hold_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, in_use: list[float], fits: bool
) -> None:
    """Another evaluator may have the device, too; a problem that is too large alone is told so at once."""
    told = iter(in_use)
    monkeypatch.setattr(device_scheduler, "memory_in_use", lambda device: next(told))
    monkeypatch.setattr(device_scheduler.policy, "OTHERS_POLL_S", 0.01)
    monkeypatch.setattr(device_scheduler.policy, "OTHERS_WAIT_S", 0.2)
    tried = attempts(False, False, fits)
    if fits:
        assert list(tried) == [False, True, True]
    else:
        with pytest.raises(DeviceFull):
            list(tried)


def test_who_can_make_room_waits_for_nobody():
    devices, stop = DeviceScheduler(), CancelToken()
    for _ in range(2):
        devices.enter(["cuda:0"], warm=lambda one: False, stop=stop)
    fits, rooms = iter([False, True]), iter([True])
    stopping = threading.Timer(20, stop.set)
    stopping.start()

    def attempt(alone: bool) -> bool:
        if not next(fits):
            raise DeviceFull("no room")
        return alone

    assert not devices.make_fit("cuda:0", attempt, make_room=lambda: next(rooms), stop=stop)
    stopping.cancel()
