"""Control groups as files: which are written for what, in version 1 and 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.evaluator.sandbox.isolation import cgroups
from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup, Hierarchies, _folder, _mounts
from kernelwright.evaluator.sandbox.process import cleanup

UNIFIED, SINGLE = "cgroup v2", "cgroup v1"


@pytest.fixture(params=[UNIFIED, SINGLE])
def hierarchies(request: pytest.FixtureRequest, tmp_path: Path) -> Hierarchies:
    """Folders that take what is written, as a kernel's would."""
    names = ("unified",) if request.param == UNIFIED else ("memory", "pids", "freezer")
    found = Hierarchies(**{name: tmp_path / name for name in names}, unified_limits=request.param == UNIFIED)
    for folder in found.folders():
        folder.mkdir()
    return found


def _written(hierarchies: Hierarchies) -> dict[str, str]:
    return {file.name: file.read_text() for folder in hierarchies.folders() for file in folder.glob("one/*")}


def test_limits_are_those_asked_for(hierarchies: Hierarchies) -> None:
    group = ControlGroup(hierarchies, "one")
    group.bound(memory_bytes=1 << 28, tasks=24)
    names = ("memory.max", "pids.max") if hierarchies.unified else ("memory.limit_in_bytes", "pids.max")
    found = _written(hierarchies)
    assert [found[name] for name in names] == [str(1 << 28), "24"]
    assert (group.bounds_memory, group.bounds_tasks, group.freezes) == (True, True, True)


def test_freezing_waits_for_the_kernels_word(hierarchies: Hierarchies) -> None:
    group = ControlGroup(hierarchies, "one")
    if hierarchies.unified:
        (hierarchies.unified / "one" / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    group.freeze()
    name, frozen, thawed = (
        ("cgroup.freeze", "1", "0") if hierarchies.unified else ("freezer.state", "FROZEN", "THAWED")
    )
    assert _written(hierarchies)[name] == frozen
    group.thaw()
    assert _written(hierarchies)[name] == thawed


def test_kills_are_counted(hierarchies: Hierarchies) -> None:
    group = ControlGroup(hierarchies, "one")
    folder = hierarchies.folders()[0] / "one"
    (folder / ("memory.events" if hierarchies.unified else "memory.oom_control")).write_text(
        "oom 3\noom_kill 2\n"
    )
    assert group.memory_kills() == 2


def test_without_hierarchies_nothing_is_promised(tmp_path: Path) -> None:
    group = ControlGroup(Hierarchies(), "one")
    group.bound(memory_bytes=1, tasks=1)
    group.freeze()
    group.thaw()
    assert (group.bounds_memory, group.bounds_tasks, group.freezes) == (False, False, False)
    assert group.memory_kills() == 0
    assert not Hierarchies(memory=tmp_path).limits.startswith("cgroup"), "memory alone bounds no tasks"


def test_the_own_group_is_found_below_its_mount(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    mounts = {"memory": (tmp_path, "/outer")}
    assert _folder("memory", {"memory": "/outer/inner"}, mounts) == tmp_path / "inner"
    assert _folder("memory", {"memory": "/outer/gone"}, mounts) == tmp_path
    assert _folder("memory", {"memory": "/elsewhere"}, mounts) == tmp_path
    assert _folder("memory", {}, mounts) is None
    assert _folder("pids", {"pids": "/outer"}, mounts) is None


def test_only_hierarchies_of_control_groups_are_taken_for_such() -> None:
    lines = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    mounted = {before.split()[4] for before, _, after in lines if after.startswith("cgroup")}
    assert {str(point) for point, _ in _mounts().values()} <= mounted


def test_what_is_killed_is_dead(tmp_path: Path) -> None:
    found = cgroups.hierarchies()
    if not found.folders():
        pytest.skip("no control groups here")
    name = f"{cleanup.owner_name(0)}test-{os.getpid()}"
    group = ControlGroup(found, name)
    try:
        with subprocess.Popen(["sleep", "600"]) as sleeper:
            group.add(sleeper.pid)
            assert all(cleanup.members(str(folder / name)) == [sleeper.pid] for folder in found.folders())
            group.kill()
            assert sleeper.wait(timeout=30) == -9
    finally:
        assert group.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_copies_of_mounts_count_for_nothing(tmp_path: Path) -> None:
    before = _mounts()
    if not before:
        pytest.skip("no control groups are mounted")
    point = next(iter(before.values()))[0]
    code = "from kernelwright.evaluator.sandbox.isolation import cgroups; print(cgroups._mounts())"
    copied = f"mount --bind '{point}' '{tmp_path}' && exec \"$@\""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", copied, "sh", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / ".ci" / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == str(before), done.stderr
