"""Who stays warm, who has to go, and who waits for whom."""

import threading
import time
from typing import Any

import pytest

from kernelwright.evaluator.driver import referee_pool
from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.referee_pool import RefereePool
from kernelwright.evaluator.schema.errors import Cancelled

GPU = "cuda:0"


class Waiting:
    """As much of a referee as idling takes."""

    def __init__(self, device: str = GPU):
        self.device = device
        self.closed = False

    def close(self) -> None:
        self.closed = True


def _open(idle: RefereePool, key: str, referee: Any) -> None:
    """One is opened, judges and waits."""
    assert idle.take(key, GPU, CancelToken()) is None
    idle.keep(key, referee, opened=True)


def test_the_longest_unused_goes_first_whoever_is_out():
    idle, (first, second, third, fourth) = RefereePool(2), (Waiting() for _ in range(4))
    _open(idle, "a", first)
    assert idle.has("a")
    assert idle.take("a", GPU, CancelToken()) is first
    assert not idle.has("a")
    for key, referee in (("b", second), ("c", third), ("d", fourth)):
        _open(idle, key, referee)
    assert [one.closed for one in (first, second, third, fourth)] == [False, True, False, False]
    assert idle.take("b", GPU, CancelToken()) is None


def test_those_of_a_full_device_are_dismissed_and_no_others():
    idle, here, there = RefereePool(4), Waiting("cuda:0"), Waiting("cuda:1")
    _open(idle, "a", here)
    _open(idle, "b", there)
    assert idle.dismiss(lambda device: device == "cuda:0")
    assert (here.closed, there.closed) == (True, False)
    assert not idle.dismiss(lambda device: device == "cuda:0")
    assert idle.take("b", GPU, CancelToken()) is there


def test_nobody_waits_after_closing():
    idle, early, late = RefereePool(4), Waiting(), Waiting()
    _open(idle, "a", early)
    idle.close()
    _open(idle, "a", late)
    assert early.closed
    assert late.closed
    assert not idle.has("a")


def _taking(idle: RefereePool, count: int, stop: CancelToken) -> tuple[list[Any], list[threading.Thread]]:
    """Evaluations that want a referee of the same problem, and what each got."""
    got: list[Any] = []

    def take() -> None:
        try:
            got.append(idle.take("a", GPU, stop))
        except Cancelled as error:
            got.append(error)

    threads = [threading.Thread(target=take) for _ in range(count)]
    for thread in threads:
        thread.start()
    return got, threads


def test_a_referee_at_work_is_waited_for_and_serves_one_after_another():
    idle, referee = RefereePool(2), Waiting()
    assert idle.take("a", GPU, CancelToken()) is None
    got, threads = _taking(idle, 2, CancelToken())
    idle.keep("a", referee, opened=True)
    while not got:
        time.sleep(0.01)
    assert got == [referee]
    idle.keep("a", referee, opened=False)
    for thread in threads:
        thread.join(20)
    assert got == [referee, referee]


def test_when_one_at_work_is_lost_whoever_waits_opens_another():
    idle = RefereePool(2)
    assert idle.take("a", GPU, CancelToken()) is None
    got, (thread,) = _taking(idle, 1, CancelToken())
    idle.lose("a", opened=True)
    thread.join(20)
    assert got == [None]


def test_once_waiting_has_cost_as_much_as_opening_another_is_opened(monkeypatch):
    monkeypatch.setitem(referee_pool.OPENING_S, "cuda", 0.2)
    monkeypatch.setattr(referee_pool, "CANCEL_CHECK_S", 0.02)
    idle, referee = RefereePool(2), Waiting()
    _open(idle, "a", referee)
    assert idle.take("a", GPU, CancelToken()) is referee
    got, threads = _taking(idle, 2, CancelToken())
    threads[0].join(0.6)
    threads[1].join(0.6)
    # The second keeps waiting: nobody knows yet how long the one that is being opened takes.
    assert got == [None]
    idle.keep("a", referee, opened=False)
    for thread in threads:
        thread.join(20)
    assert got == [None, referee]


def test_waiting_ends_when_the_evaluation_is_stopped():
    idle, stop = RefereePool(2), CancelToken()
    assert idle.take("a", GPU, CancelToken()) is None
    stop.set()
    with pytest.raises(Cancelled):
        idle.take("a", GPU, stop)
