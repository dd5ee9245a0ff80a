import threading

import pytest

from kernelwright.evaluator.host.device_lock import DeviceLock


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    leases = DeviceLock("cpu"), DeviceLock("cpu")
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


def test_whoever_waits_to_be_alone_goes_before_later_sharers(two):
    timing, sharing = two
    sharing.share()
    taken = threading.Event()
    waiter = threading.Thread(target=lambda: (timing.take(), taken.set()))
    waiter.start()
    assert not taken.wait(0.1)
    late = DeviceLock("cpu")
    shared = threading.Event()
    newcomer = threading.Thread(target=lambda: (late.share(), shared.set()))
    newcomer.start()
    assert not shared.wait(0.1)
    sharing.release()
    assert taken.wait(5)
    assert not shared.wait(0.1)
    timing.release()
    assert shared.wait(5)
    waiter.join()
    newcomer.join()
    late.close()


def test_sharing_again_never_waits_for_whom_the_first_time_keeps_waiting(two):
    timing, sharing = two
    sharing.share()
    waiter = threading.Thread(target=timing.take)
    waiter.start()
    sharing.share()
    sharing.release()
    waiter.join(5)
    assert timing.held == "alone"


def test_only_time_alone_is_counted(two):
    lease, _ = two
    lease.share()
    lease.release()
    assert lease.alone_s == 0.0
    lease.take()
    lease.take()
    assert lease.alone_s > 0.0
    lease.share()
    before = lease.alone_s
    lease.release()
    assert lease.alone_s == before


def test_another_users_file_may_be_read_only_or_useless(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "kernelwright-cpu.lock").touch(mode=0o444)
    (tmp_path / "kernelwright-cpu.gate").symlink_to("/etc/passwd")
    lease = DeviceLock("cpu")
    lease.take()
    assert lease.held == "alone"
    lease.close()
