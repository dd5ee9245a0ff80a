"""Where memory is short an evaluation waits for others, and never for those who wait like itself."""

import threading
import time

import pytest

from evaluator.crowding import Crowd
from evaluator.errors import Stopped
from evaluator.stopping import Stop

DEVICE = "cuda:0"


def _enter(crowd: Crowd, count: int = 1) -> None:
    for _ in range(count):
        crowd.enter([DEVICE], warm=lambda device: False)


def test_the_least_busy_device_is_chosen_and_a_warm_one_among_equals():
    crowd = Crowd()
    devices = ["cuda:0", "cuda:1"]
    assert crowd.enter(devices, warm=lambda device: device == "cuda:1") == "cuda:1"
    assert crowd.enter(devices, warm=lambda device: device == "cuda:1") == "cuda:0"
    crowd.leave("cuda:1")
    assert crowd.enter(devices, warm=lambda device: False) == "cuda:1"


def test_who_is_alone_has_nobody_to_wait_for():
    crowd = Crowd()
    _enter(crowd)
    assert not crowd.wait_for_room(DEVICE, Stop())


def test_room_comes_when_another_leaves():
    crowd = Crowd()
    _enter(crowd, 2)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(crowd.wait_for_room(DEVICE, Stop())))
    waiting.start()
    time.sleep(0.1)
    assert not answers
    crowd.leave(DEVICE)
    waiting.join(10)
    assert answers == [True]


def test_two_who_wait_do_not_wait_for_each_other():
    crowd = Crowd()
    _enter(crowd, 2)
    answers: list[bool] = []

    def wait() -> None:
        found = crowd.wait_for_room(DEVICE, Stop())
        answers.append(found)
        if not found:
            crowd.leave(DEVICE)

    waiting = [threading.Thread(target=wait) for _ in range(2)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join(10)
    assert sorted(answers) == [False, True]


def test_waiting_ends_when_the_evaluation_is_stopped():
    crowd, stop = Crowd(), Stop()
    _enter(crowd, 2)
    stop.set()
    with pytest.raises(Stopped):
        crowd.wait_for_room(DEVICE, stop)
