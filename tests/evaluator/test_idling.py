"""Who stays warm, and who has to go."""

from evaluator.idling import IdleReferees


class Waiting:
    """As much of a referee as idling takes."""

    def __init__(self, device="cuda:0"):
        self.device = device
        self.closed = False

    def close(self):
        self.closed = True


def test_the_longest_unused_goes_first_whoever_is_out():
    idle, (first, second, third, fourth) = IdleReferees(2), (Waiting() for _ in range(4))
    idle.keep("a", first)
    assert idle.has("a")
    assert idle.take("a") is first
    assert not idle.has("a")
    for key, referee in (("b", second), ("c", third), ("d", fourth)):
        idle.keep(key, referee)
    assert [one.closed for one in (first, second, third, fourth)] == [False, True, False, False]
    assert idle.take("b") is None


def test_those_of_a_full_device_are_dismissed_and_no_others():
    idle, here, there = IdleReferees(4), Waiting("cuda:0"), Waiting("cuda:1")
    idle.keep("a", here)
    idle.keep("b", there)
    assert idle.dismiss("cuda:0")
    assert (here.closed, there.closed) == (True, False)
    assert not idle.dismiss("cuda:0")
    assert idle.take("b") is there


def test_nobody_waits_after_closing():
    idle, early, late = IdleReferees(4), Waiting(), Waiting()
    idle.keep("a", early)
    idle.close()
    idle.keep("a", late)
    assert early.closed
    assert late.closed
    assert not idle.has("a")
