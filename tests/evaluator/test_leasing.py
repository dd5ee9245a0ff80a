import threading

import pytest

from evaluator.leasing import DeviceLease


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    leases = DeviceLease("cpu"), DeviceLease("cpu")
    yield leases
    for lease in leases:
        lease.close()


def test_timing_waits_until_sharers_are_gone(two):
    timing, sharing = two
    sharing.share()
    taken = threading.Event()
    waiter = threading.Thread(target=lambda: (timing.take(), taken.set()))
    waiter.start()
    assert not taken.wait(0.1)
    sharing.release()
    assert taken.wait(5)
    waiter.join()
    assert timing.held == "alone"


def test_a_lease_goes_back_to_what_was_held(two):
    lease, _ = two
    lease.share()
    before = lease.held
    lease.release()
    lease.hold(before)
    assert lease.held == "shared"
