"""Starting, freezing and ending: whoever lives inside stops when told and never outlives its sandbox."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.evaluator import ConfigError, MachineError, SandboxTier
from kernelwright.evaluator.sandbox import Bind, Launcher, SandboxPolicy, probe, strongest
from kernelwright.evaluator.sandbox.isolation.cgroups import hierarchies
from tests.evaluator.sandbox.processes import DAEMON, eventually, leftover_names, pipe, read

if TYPE_CHECKING:
    from conftest import Inside


def test_the_exit_status_is_reported(inside: Inside) -> None:
    assert inside.run("raise SystemExit(7)")[0].returncode == 7


def test_the_signal_is_reported(inside: Inside) -> None:
    report, _ = inside.run("import os; os.abort()")
    assert (report.returncode, report.signal) == (None, signal.SIGABRT)
    assert report.reason == "ended by SIGABRT"


def test_a_shell_and_its_exit_code_above_128_stay_an_exit_code(inside: Inside) -> None:
    assert inside.run("raise SystemExit(137)")[0].returncode == 137


def test_a_program_that_does_not_exist_is_a_machine_error(inside: Inside) -> None:
    with pytest.raises(MachineError, match="No such file"):
        inside.launcher.start(("/nonexistent",), inside.policy)


def test_passed_descriptors_work_and_others_are_closed(inside: Inside) -> None:
    with pipe() as (reader, writer), pipe() as (_, other):
        os.set_inheritable(other, True)
        code = "import os, sys; os.write(int(sys.argv[1]), b'hello'); print(len(os.listdir('/proc/self/fd')))"
        _, output = inside.run(code, writer, fds=(writer,))
        os.close(writer)
        os.close(other)
        assert read(reader) == b"hello"
        assert output == "5\n"  # standard three, the one passed, and the listing's own


def test_kill_ends_a_daemon_that_ignores_every_signal(inside: Inside) -> None:
    with pipe() as (reader, writer):
        running = inside.start(DAEMON + "time.sleep(60)", writer, fds=(writer,))
        os.close(writer)
        assert read(reader) == b"daemon"
        report = running.kill()
        assert read(reader) == b""
        assert report.signal == signal.SIGKILL
        assert running.kill() is report
        assert running.poll() is report


def test_a_daemon_does_not_outlive_the_program(inside: Inside) -> None:
    with pipe() as (reader, writer):
        running = inside.start(DAEMON, writer, fds=(writer,))
        os.close(writer)
        report = running.wait(60)
        assert report is not None
        assert report.returncode == 0
        assert read(reader) == b"daemon"
        assert read(reader) == b""


def test_wait_gives_up_when_told(inside: Inside) -> None:
    running = inside.start("import time; time.sleep(60)")
    assert running.wait(0.05) is None
    assert running.poll() is None
    running.kill()


def test_frozen_means_that_nothing_runs(inside: Inside) -> None:
    code = """
import mmap, os, sys, threading
memory = mmap.mmap(int(sys.argv[1]), 4096)
children = [os.fork(), os.fork()]
slot = 8 * children.count(0)
def count(place):
    number = 0
    while True:
        number += 1
        memory[place:place + 8] = number.to_bytes(8, "little")
threading.Thread(target=count, args=(slot,)).start()
count(slot + 64)
"""
    shared = os.memfd_create("counters")
    os.ftruncate(shared, 4096)
    with mmap.mmap(shared, 4096) as counters:
        running = inside.start(code, shared, fds=(shared,))
        os.close(shared)
        for _ in range(3):
            before = counters[:]
            eventually(lambda before=before: counters[:8] != before[:8] and counters[64:72] != before[64:72])
            running.freeze()
            still = counters[:]
            time.sleep(0.05)
            assert counters[:] == still
            running.thaw()
        running.freeze()
        running.kill()
        running.freeze()
        running.thaw()


def test_a_frozen_tree_can_be_waited_for_and_thawed_to_its_end(inside: Inside) -> None:
    running = inside.start("import sys; sys.stdin.read(); import time; time.sleep(0.2); print('end')")
    running.freeze()
    assert running.wait(0.3) is None
    running.thaw()
    report = running.wait(60)
    assert report is not None
    assert running.output() == "end\n"


def test_it_lives_on_when_the_thread_that_asked_for_it_ends(inside: Inside) -> None:
    started = []
    code = "import time; time.sleep(0.3); print('alive')"
    thread = threading.Thread(target=lambda: started.append(inside.start(code)))
    thread.start()
    thread.join()
    report = started[0].wait(60)
    assert report is not None
    assert (report.returncode, started[0].output()) == (0, "alive\n")


def test_many_at_once_do_not_mix(inside: Inside) -> None:
    outputs: dict[int, str] = {}

    def run(number: int) -> None:
        with Launcher() if number % 2 else _borrowed(inside.launcher) as launcher:
            argv = (sys.executable, "-I", "-S", "-c", f"print({number})")
            running = launcher.start(argv, inside.policy)
            assert running.wait(60)
            outputs[number] = running.output()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: f"{number}\n" for number in range(6)}


@contextmanager
def _borrowed(launcher: Launcher) -> Iterator[Launcher]:
    yield launcher


def test_closing_a_launcher_ends_what_it_started(inside: Inside) -> None:
    with pipe() as (reader, writer):
        launcher = Launcher()
        argv = (sys.executable, "-I", "-S", "-c", DAEMON + "time.sleep(60)", str(writer))
        running = launcher.start(argv, inside.policy, fds=(writer,))
        os.close(writer)
        assert read(reader) == b"daemon"
        launcher.close()
        assert read(reader) == b""
        assert running.poll() is not None
        with pytest.raises(ConfigError, match="closed"):
            launcher.start(argv, inside.policy)
        launcher.close()


def test_control_groups_are_removed(inside: Inside) -> None:
    with Launcher() as launcher:
        owner = launcher._owner
        running = launcher.start((sys.executable, "-c", "import time; time.sleep(60)"), inside.policy)
        assert bool(leftover_names(owner)) == bool(hierarchies().folders() or "mount" not in running.features)
        running.kill()
        assert not leftover_names(owner)


def test_the_plain_tier_runs_bounded_and_scrubbed(launcher: Launcher) -> None:
    policy = SandboxPolicy(
        tier=SandboxTier.NONE,
        memory_bytes=1 << 28,
        processes=64,
        file_bytes=1 << 20,
        scratch_bytes=1 << 20,
        environment={"HOME": "/tmp", "TMPDIR": "/tmp/below"},
    )
    code = "import os; print(sorted(os.environ)); print(os.environ['HOME'] == os.getcwd() != '/tmp')"
    running = launcher.start((sys.executable, "-I", "-S", "-c", code), policy)
    report = running.wait(60)
    assert report is not None
    assert running.output() == "['HOME', 'TMPDIR']\nTrue\n" or "LC_CTYPE" in running.output()
    assert (running.report.tier, running.report.seccomp, running.report.uid) == ("none", False, "own")


def test_the_plain_tier_leaves_no_daemon(launcher: Launcher) -> None:
    policy = SandboxPolicy(
        tier=SandboxTier.NONE,
        memory_bytes=1 << 28,
        processes=64,
        file_bytes=1 << 20,
        scratch_bytes=1 << 20,
        environment={},
    )
    for ending, kills in (("time.sleep(60)", True), ("", False)):
        with pipe() as (reader, writer):
            argv = (sys.executable, "-I", "-S", "-c", DAEMON + ending, str(writer))
            running = launcher.start(argv, policy, fds=(writer,))
            os.close(writer)
            assert read(reader) == b"daemon"
            assert running.kill() if kills else running.wait(60)
            assert read(reader) == b""


def test_only_bubblewrap_can_move_a_path(launcher: Launcher, inside: Inside, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("moved")
    binds = (Bind(tmp_path, Path("/elsewhere")),)
    code = "print(open('/elsewhere/file').read())"
    if inside.policy.tier is SandboxTier.BUBBLEWRAP:
        assert inside.run(code, binds=binds)[1] == "moved\n"
    else:
        with pytest.raises(ConfigError, match="only the bubblewrap sandbox"):
            inside.run(code, binds=binds)


def test_the_strongest_tier_is_never_none_unless_asked_for() -> None:
    assert strongest(SandboxTier.NONE) is SandboxTier.NONE
    works = [tier for tier, found in probe().tiers.items() if found.works]
    if works[0] is SandboxTier.NONE:
        with pytest.raises(MachineError, match="install bubblewrap"):
            strongest(None)
    else:
        assert strongest(None) is works[0]
