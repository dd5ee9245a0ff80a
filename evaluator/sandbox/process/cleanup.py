"""Removes cgroups, scratch folders and half-started sandboxes of dead launchers. Standard library only.

Everything a launcher creates is named `kernelwright-PIDNS-PID-START-SERIAL-...` after its owner, so that any
process can tell, without a lock, if the owner is alive. Bubblewrap gets such a name as its last argument:
when it is killed before it lets its child run, the child waits for ever, in no cgroup and below no process of
ours. Run as a program it cleans up after one launcher: it waits for the end of its standard input, which
comes even when the driver is killed, and not before all that the driver forked has its arguments.
"""

import os
import sys
import time

PREFIX = "kernelwright-"
SIGKILL = 9
REMOVE_S = 5.0
"""Time for the processes of a killed cgroup to die."""


def start_time(pid: int) -> str | None:
    """Start of a process in clock ticks since boot; None when there is no such live process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def namespace() -> str:
    """This pid namespace's number; pids are only comparable within one."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115
    except OSError:
        return "0"


def owner_name(serial: int) -> str:
    """Prefix of the names of everything one launcher in this process creates."""
    pid = os.getpid()
    return f"{PREFIX}{namespace()}-{pid}-{start_time(pid)}-{serial}-"


def is_abandoned(name: str) -> bool:
    """True for a name of a launcher in this pid namespace whose process is gone."""
    if not name.startswith(PREFIX):
        return False
    parts = name.removeprefix(PREFIX).split("-")
    if len(parts) < 4 or not parts[1].isdigit() or parts[0] != namespace():
        return False
    return start_time(int(parts[1])) != parts[2]


def sweep(scratch: str, groups: list[str], owner: str | None = None) -> None:
    """Kill what is starting, and remove folders in `scratch` and groups, of one owner or of all dead ones."""
    kill_starting(owner)
    for folder in (*groups, scratch):
        for name in _names(folder):
            if is_abandoned(name) if owner is None else name.startswith(owner):
                path = f"{folder}/{name}"
                remove_folder(path) if folder == scratch else remove_cgroup(path)


def kill_starting(prefix: str | None = None) -> None:
    """Kill each bubblewrap of a name with this prefix, or of a dead launcher, until two looks find none."""
    deadline, unseen = time.monotonic() + REMOVE_S, 0
    while unseen < 2 and time.monotonic() < deadline:
        found = [pid for pid in _names("/proc") if pid.isdigit() and _is_starting(pid, prefix)]
        for pid in found:
            try:
                os.kill(int(pid), SIGKILL)
            except OSError:
                continue
        unseen = 0 if found else unseen + 1


def _is_starting(pid: str, prefix: str | None) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return False
    if len(words) < 2 or not words[0].endswith("bwrap"):
        return False
    return is_abandoned(words[-2]) if prefix is None else words[-2].startswith(prefix)


def remove_folder(path: str) -> None:
    """Remove a scratch folder of this user; others may have made a folder of that name in /tmp."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    if found.st_uid == os.geteuid() and found.st_mode & 0o170000 == 0o040000:
        import shutil  # slow to import, rarely needed

        shutil.rmtree(path, ignore_errors=True)


def write(path: str, text: str) -> bool:
    """Write a kernel file; False when that fails."""
    try:
        with open(path, "w") as file:  # noqa: PTH123
            file.write(text)
    except OSError:
        return False
    return True


def members(cgroup: str) -> list[int]:
    try:
        with open(f"{cgroup}/cgroup.procs") as file:  # noqa: PTH123
            return [int(line) for line in file]
    except (OSError, ValueError):
        return []


def kill_cgroup(cgroup: str) -> None:
    if not write(f"{cgroup}/cgroup.kill", "1"):
        for pid in members(cgroup):
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue
    if os.path.exists(f"{cgroup}/freezer.state"):  # noqa: PTH110
        write(f"{cgroup}/freezer.state", "THAWED")


def remove_cgroup(cgroup: str) -> bool:
    """Kill all processes of a cgroup and remove it; False when one does not die."""
    deadline = time.monotonic() + REMOVE_S
    pause = 0.0005
    while True:
        try:
            os.rmdir(cgroup)  # noqa: PTH106
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
        else:
            return True
        kill_cgroup(cgroup)
        time.sleep(pause)
        pause = min(0.05, pause * 2)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _clean_up_after_owner() -> None:
    owner, scratch, *groups = sys.argv[1:]
    while os.read(0, 64):
        continue
    sweep(scratch, groups, owner)


if __name__ == "__main__":
    _clean_up_after_owner()
