"""What a killed driver was running or starting ends, and nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright import evaluator
from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import Launcher, probe
from kernelwright.evaluator.sandbox.isolation.bubblewrap import find_bubblewrap
from kernelwright.evaluator.sandbox.isolation.cgroups import hierarchies
from kernelwright.evaluator.sandbox.process import cleanup, process_tree
from tests.evaluator.sandbox.processes import DAEMON, eventually, leftover_names, pipe, read

if TYPE_CHECKING:
    from conftest import Inside

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
running = launcher.start(argv, policy, fds=(writer,), preload=tuple(sys.argv[5:]))
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
            *inside.preload,
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


def started_by(prefix: str) -> list[int]:
    """Processes with a sandbox's name among their arguments, the program inside left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if any(word.startswith(prefix) for word in path.read_text("utf-8", "replace").split("\0")):
                found.append(int(path.parent.name))
    return found


KILLED_DRIVER = DRIVER.replace("running = ", "print('starting', flush=True)\nrunning = ")


@pytest.mark.parametrize("after_ms", [0, 1, 2, 4, 8, 12, 16, 25, 40])
def test_nothing_is_left_of_a_start_whose_driver_is_killed(tier: SandboxTier, after_ms: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(evaluator.__file__).parents[2])}
    argv = (sys.executable, "-c", KILLED_DRIVER, tier, "1", "running", "import time; time.sleep(60)")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as driver:
        assert driver.stdout
        assert driver.stdout.readline() == "starting\n"
        time.sleep(after_ms / 1000)
        driver.kill()
    owner = f"{cleanup.PREFIX}{cleanup.namespace()}-{driver.pid}-"
    eventually(lambda: not started_by(owner) and not leftover_names(owner))


@pytest.mark.parametrize("whose", ["its own cleaner", "the next launcher"])
def test_a_child_that_bubblewrap_left_waiting_is_killed(whose: str) -> None:
    program = find_bubblewrap()
    if program is None or not probe().tiers[SandboxTier.BUBBLEWRAP].works:
        pytest.skip("bubblewrap does not work here")
    owner = subprocess.Popen(("sleep", "100"))  # while it lives, nobody else sweeps
    start = cleanup.start_time(owner.pid)
    name = f"{cleanup.PREFIX}{cleanup.namespace()}-{owner.pid}-{start}-1-1-"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))  # full, so that bubblewrap waits before it lets its child run
    os.set_blocking(writer, True)
    options = ("--unshare-pid", "--ro-bind", "/", "/", "--info-fd", str(writer))
    argv = (program.path, *options, "--", "true", name)
    with subprocess.Popen(argv, pass_fds=(writer,)) as monitor:
        eventually(lambda: len(started_by(name)) == 2)
        monitor.kill()
    os.close(reader)
    os.close(writer)
    (waiting,) = started_by(name)
    assert process_tree.read_process(waiting)
    owner.kill()
    owner.wait()
    if whose == "the next launcher":
        Launcher().close()
    else:
        cleanup.sweep("/nonexistent", [], name)
    eventually(lambda: not started_by(name))


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
