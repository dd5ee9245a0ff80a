"""Starting, freezing and ending: whoever lives inside stops when told and never outlives its sandbox."""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright import evaluator
from kernelwright.evaluator import ConfigError, MachineError, SandboxTier
from kernelwright.evaluator.sandbox import Bind, Launcher, SandboxPolicy, probe, strongest
from kernelwright.evaluator.sandbox.process import cleanup
from kernelwright.evaluator.sandbox.process.launcher import hierarchies

if TYPE_CHECKING:
    from conftest import Inside

DAEMON = """
import os, signal, sys, time
reader, ready = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.write(int(sys.argv[1]), b"daemon")
        os.write(ready, b"x")
        while True:
            time.sleep(60)
    os._exit(0)
os.read(reader, 1)
"""


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(reader)


def read(reader: int) -> bytes:
    """What comes next; empty when nobody is left who could write."""
    ready, _, _ = select.select([reader], [], [], 60)
    assert ready, "neither words nor death within a minute"
    return os.read(reader, 100)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen within a minute"
        time.sleep(0.01)


def leftover_names(owner: str) -> list[str]:
    folders = [*hierarchies().folders(), Path("/tmp")]
    return [name for folder in folders for name in _names(folder) if name.startswith(owner)]


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


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
        assert running.tasks() == 0


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
    assert running.tasks() == 1
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


DRIVER = """
import os, sys
from pathlib import Path
from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import (Launcher, SandboxPolicy)
tier, writer, frozen, code = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
policy = SandboxPolicy(tier=SandboxTier(tier), memory_bytes=1 << 28, processes=16, file_bytes=1 << 20,
    scratch_bytes=1 << 20, environment={})
launcher = Launcher()
argv = (sys.executable, "-I", "-S", "-c", code, str(writer))
running = launcher.start(argv, policy, fds=(writer,))
os.close(writer)
sys.stdin.readline()
if frozen == "frozen":
    running.freeze()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_nothing_is_left_when_the_driver_is_killed(inside: Inside, state: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(evaluator.__file__).parents[2])}
    with pipe() as (reader, writer):
        argv = (
            sys.executable,
            "-c",
            DRIVER,
            inside.policy.tier,
            str(writer),
            state,
            DAEMON + "time.sleep(60)",
        )
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(writer,),
            env=environment,
            text=True,
        ) as driver:
            os.close(writer)
            assert read(reader) == b"daemon"
            assert driver.stdin
            assert driver.stdout
            driver.stdin.write("go\n")
            driver.stdin.flush()
            assert driver.stdout.readline() == "ready\n"
            owner = f"{cleanup.PREFIX}{cleanup.namespace()}-{driver.pid}-"
            assert leftover_names(owner) or not hierarchies().folders()
            driver.kill()
            assert read(reader) == b""
        eventually(lambda: not leftover_names(owner))


def test_things_of_dead_launchers_are_swept_and_those_of_live_ones_are_not(tmp_path: Path) -> None:
    with subprocess.Popen(("true",)) as dead:
        pass
    name = f"{cleanup.PREFIX}{cleanup.namespace()}-{dead.pid}-12345-1-scratch-x"
    elsewhere = f"{cleanup.PREFIX}1-{dead.pid}-12345-1-scratch-x"
    mine = f"{cleanup.owner_name(1)}scratch-x"
    for folder in (name, elsewhere, mine, "kernelwright-other", "other"):
        (tmp_path / folder / "below").mkdir(parents=True)
    (tmp_path / f"{name}-link").symlink_to(tmp_path / "other")
    cleanup.sweep(str(tmp_path), ["/nonexistent"])
    (tmp_path / f"{name}-link").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        (elsewhere, mine, "kernelwright-other", "other")
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make other users' folders")
def test_a_trap_in_the_scratch_folder_is_not_swept(tmp_path: Path) -> None:
    with subprocess.Popen(("sleep", "60")) as victim:
        trap = tmp_path / f"{cleanup.PREFIX}{cleanup.namespace()}-1-12345-1-scratch-x"
        trap.mkdir()
        (trap / "cgroup.procs").write_text(str(victim.pid))
        os.chown(trap, 12345, 12345)
        cleanup.sweep(str(tmp_path), [])
        assert trap.exists()
        assert victim.poll() is None
        os.chown(trap, 0, 0)
        cleanup.sweep(str(tmp_path), [])
        assert not trap.exists()
        assert victim.poll() is None
        victim.kill()


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
