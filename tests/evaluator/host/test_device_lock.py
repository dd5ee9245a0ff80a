import os
import subprocess
import sys
import threading

import pytest

from kernelwright.evaluator import MachineError
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
    waiter = threading.Thread(target=lambda: (timing.hold_alone(), taken.set()))
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
    lease.restore(before)
    assert lease.held == "shared"


def test_whoever_waits_to_be_alone_goes_before_later_sharers(two):
    timing, sharing = two
    sharing.share()
    taken = threading.Event()
    waiter = threading.Thread(target=lambda: (timing.hold_alone(), taken.set()))
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
    waiter = threading.Thread(target=timing.hold_alone)
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
    lease.hold_alone()
    lease.hold_alone()
    assert lease.alone_s > 0.0
    lease.share()
    before = lease.alone_s
    lease.release()
    assert lease.alone_s == before


def test_the_lock_files_lie_where_only_this_user_can_open_them(two, tmp_path):
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"kernelwright-{os.geteuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["cpu.gate", "cpu.lock"]


def test_a_folder_that_others_can_open_or_made_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"kernelwright-{os.geteuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(MachineError, match="mode 755; remove it, chmod it to 700, or set TMPDIR"):
        DeviceLock("cpu")
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="is not a folder that only this user can open"):
        DeviceLock("cpu")
    assert not list((tmp_path / "elsewhere").iterdir())
    folder.unlink()
    folder.mkdir(mode=0o700)
    (folder / "cpu.lock").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        DeviceLock("cpu")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make other users' folders")
def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "kernelwright-0"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(MachineError, match=r"user 12345.*; have its owner or root remove it, or set TMPDIR"):
        DeviceLock("cpu")


def test_a_wait_ends_with_the_holders_process_and_leaves_nothing_locked(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from kernelwright.evaluator.host.device_lock import DeviceLock\n"
        "lock = DeviceLock('cpu'); lock.hold_alone(); print('taken', flush=True); sys.stdin.read()"
    )
    argv = (sys.executable, "-c", script, str(tmp_path))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        for claim in (DeviceLock.share, DeviceLock.hold_alone):
            waiting = DeviceLock("cpu", wait_s=0.05)
            with pytest.raises(MachineError, match=f"for cpu, which process {holder.pid} of this user"):
                claim(waiting)
            with pytest.raises(MachineError, match="closed"):
                claim(waiting)
            waiting.close()
        holder.stdin.close()
    after = DeviceLock("cpu", wait_s=10)
    after.hold_alone()
    after.close()


def test_files_that_were_tidied_away_are_made_again(two, tmp_path):
    timing, sharing = two
    (folder,) = tmp_path.iterdir()
    for path in folder.iterdir():
        path.unlink()
    timing.hold_alone()
    sharing_ended = threading.Event()
    newcomer = threading.Thread(target=lambda: (sharing.share(), sharing_ended.set()))
    newcomer.start()
    assert not sharing_ended.wait(0.1)
    timing.release()
    assert sharing_ended.wait(5)
    newcomer.join()
