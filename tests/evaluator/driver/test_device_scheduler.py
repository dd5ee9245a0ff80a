"""Where memory is short an evaluation waits for others, and never for those who wait like itself."""

import threading
import time
from collections.abc import Callable

import pytest

from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.device_scheduler import DeviceScheduler
from kernelwright.evaluator.schema.errors import Cancelled

DEVICE = "cuda:0"


def _enter(crowd: DeviceScheduler, count: int = 1) -> None:
    for _ in range(count):
        crowd.enter([DEVICE], warm=lambda device: False, stop=CancelToken())


def test_the_least_busy_device_is_chosen_and_a_warm_one_among_equals():
    crowd = DeviceScheduler()
    devices = ["cuda:0", "cuda:1"]
    assert crowd.enter(devices, warm=lambda device: device == "cuda:1", stop=CancelToken()) == "cuda:1"
    assert crowd.enter(devices, warm=lambda device: device == "cuda:1", stop=CancelToken()) == "cuda:0"
    crowd.leave("cuda:1")
    assert crowd.enter(devices, warm=lambda device: False, stop=CancelToken()) == "cuda:1"


def test_who_is_alone_waits_for_nobody():
    crowd = DeviceScheduler()
    _enter(crowd)
    assert not crowd.is_shared(DEVICE)
    with crowd.alone(DEVICE, CancelToken()):
        pass


def _started(*works: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def test_who_wants_a_device_alone_has_it_when_all_others_have_left_until_it_is_done():
    crowd = DeviceScheduler()
    _enter(crowd, 3)
    order: list[str] = []
    may_end = threading.Event()

    def have() -> None:
        with crowd.alone(DEVICE, CancelToken()):
            order.append("alone")
            may_end.wait(20)
            order.append("done")
        crowd.leave(DEVICE)

    def enter() -> None:
        _enter(crowd)
        order.append("entered")

    (having,) = _started(have)
    crowd.leave(DEVICE)
    having.join(0.2)
    (entering,) = _started(enter)
    entering.join(0.2)
    assert not order
    crowd.leave(DEVICE)
    entering.join(0.2)
    assert order == ["alone"]
    may_end.set()
    having.join(20)
    entering.join(20)
    assert order == ["alone", "done", "entered"]


def test_those_who_wait_go_on_one_at_a_time():
    crowd = DeviceScheduler()
    _enter(crowd, 2)
    inside = threading.Semaphore(1)
    alone: list[bool] = []

    def have() -> None:
        with crowd.alone(DEVICE, CancelToken()):
            alone.append(inside.acquire(blocking=False))
            time.sleep(0.1)
            inside.release()
        crowd.leave(DEVICE)

    for thread in _started(have, have):
        thread.join(20)
    assert alone == [True, True]


def test_waiting_ends_when_the_evaluation_is_stopped():
    crowd, stop = DeviceScheduler(), CancelToken()
    _enter(crowd, 2)
    stop.set()
    with pytest.raises(Cancelled), crowd.alone(DEVICE, stop):
        raise AssertionError
    assert not crowd._claims[DEVICE]
