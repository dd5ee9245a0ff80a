"""The first process in a sandbox: applies a plan to a forked worker, executes the program, reaps processes.

Run by path with `python -I -S`, never imported. Every sandbox pays for its start, so it avoids `json`,
`signal`, `socket` and `struct`. It reads one marshalled plan from the launcher and answers in lines of text:
`hello FEATURES`, `worker`, `started`, `failed WHY`, `exited STATUS`. Under bubblewrap it is pid 1;
otherwise it creates the namespaces it may. What `fork_server` starts is not its child: then it sets the
sandbox up and reaps orphans. It decides nothing.
"""

import ctypes
import marshal
import os
import resource
import select
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_SET_SECCOMP = 38, 47, 22
SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_FILE_RIGHTS = 1 | 2 | 4 | 1 << 14 | 1 << 15
MOUNT_SETATTR, MOUNT_READ_ONLY, AT_RECURSIVE = 442, 1, 0x8000
SET_INTERFACE_FLAGS = 0x8914
CAP_KILL = 1 << 5
NAMESPACES = (
    ("mount", 0x00020000),
    ("pid", 0x20000000),
    ("net", 0x40000000),
    ("ipc", 0x08000000),
    ("uts", 0x04000000),
    ("cgroup", 0x02000000),
)
USER_NAMESPACE = 0x10000000


def check(value: int, what: str) -> int:
    """The result of a C call; raises OSError where it failed."""
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def prctl(option: int, first: int, second: int = 0) -> int:
    """`prctl` with unused arguments zero, as some options require."""
    return int(LIBC.prctl(option, *(ctypes.c_ulong(value) for value in (first, second, 0, 0))))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    check(LIBC.mount(*arguments, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def send_line(control: int, line: str) -> None:
    """Send one line to the launcher, which may be gone."""
    try:
        os.write(control, line.replace("\n", " ").encode("utf-8", "replace") + b"\n")
    except OSError:
        return


def receive(control: int) -> dict:  # type: ignore[type-arg]  # a marshalled plan of plain values
    """The launcher's plan: eight hexadecimal digits of length, then the bytes."""
    header = read_exactly(control, 8)
    return dict(marshal.loads(read_exactly(control, int(header, 16))))


def read_exactly(control: int, count: int) -> bytes:
    """Exactly `count` bytes; ends this sandbox when the launcher is gone."""
    data = b""
    while len(data) < count:
        piece = os.read(control, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def isolate() -> list[str]:
    """Create the namespaces this process may; returns their names, in the process inside them."""
    features = []
    uid, gid = os.getuid(), os.getgid()
    if uid != 0 and LIBC.unshare(USER_NAMESPACE) == 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
        features.append("user")
    refused = refused_namespaces()
    features += [name for name, flag in NAMESPACES if name not in refused and LIBC.unshare(flag) == 0]
    if "net" in features:
        raise_loopback()
    if "pid" in features:
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        descriptors = open_descriptors()  # before the child replaces /proc for both
        child = os.fork()
        if child:
            close_all(descriptors - {0, 1, 2})
            os.waitpid(child, 0)
            os._exit(0)
    return features


def refused_namespaces() -> set[str]:
    """Namespaces of no use here: containers may forbid mounts, or a second /proc beside a masked one."""
    trial = os.fork()
    if trial == 0:
        os._exit(try_mounts())
    ended = os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1])
    return {0: {"mount", "pid"}, 1: {"pid"}, 2: set()}[ended]


def try_mounts() -> int:
    """Set up `mount`, then `pid`, as far as it works: their count. The process is of no use afterwards."""
    namespaces = dict(NAMESPACES)
    try:
        check(LIBC.unshare(namespaces["mount"]), "unshare")
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV)
    except OSError:
        return 0
    if LIBC.unshare(namespaces["pid"]) != 0:
        return 1
    child = os.fork()
    if child == 0:
        try:
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except OSError:
            os._exit(1)
        os._exit(0)
    return 1 if os.waitpid(child, 0)[1] else 2


def raise_loopback() -> None:
    handle = LIBC.socket(2, 2, 0)
    if handle >= 0:
        LIBC.ioctl(handle, SET_INTERFACE_FLAGS, b"lo".ljust(16, b"\0") + b"\x41".ljust(24, b"\0"))
        os.close(handle)


def set_up_mounts(plan: dict, features: list[str]) -> None:  # type: ignore[type-arg]  # plain values
    """Mount /proc, scratch and covers, in a mount namespace of this sandbox's own."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    if "pid" in features:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    kept = [(path, writable, os.open(path, os.O_PATH)) for path, writable in plan["visible"]]
    for directory, options in plan["covers"]:
        mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path, writable, handle in kept:
        show(path, handle, writable=writable)
        os.close(handle)


def show(path: str, handle: int, *, writable: bool) -> None:
    """Mount an open file or folder at its own path, which a cover may have hidden.

    The mount itself must be read-only: Landlock's rights on a folder hold for everything mounted below it.
    """
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
        if os.fstat(handle).st_mode & 0o170000 == 0o040000:
            os.mkdir(path)  # noqa: PTH102
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    mount(f"/proc/self/fd/{handle}", path, None, MS_BIND | MS_REC)
    if not writable:
        attributes = b"".join(value.to_bytes(8, sys.byteorder) for value in (MOUNT_READ_ONLY, 0, 0, 0))
        done = LIBC.syscall(MOUNT_SETATTR, -100, os.fsencode(path), AT_RECURSIVE, attributes, len(attributes))
        check(done, f"read-only {path}")


def keep_capabilities(mask: int) -> None:
    """Drop every capability outside the mask, and the bounding set where that is allowed."""
    prctl(PR_CAP_AMBIENT, 4)
    for number in range(64):
        if not mask >> number & 1 and prctl(PR_CAPBSET_DROP, number) < 0:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    LIBC.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))


def apply_landlock(landlock: dict) -> None:  # type: ignore[type-arg]  # plain values
    """Allow only the listed paths, no TCP, and no signals or abstract sockets to the outside."""
    attribute = landlock["attribute"]
    ruleset = check(LIBC.syscall(LANDLOCK_CREATE, attribute, len(attribute), 0), "landlock ruleset")
    for path, rights in landlock["rules"]:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if os.fstat(handle).st_mode & 0o170000 != 0o040000:
            rights &= LANDLOCK_FILE_RIGHTS
        rule = rights.to_bytes(8, sys.byteorder) + handle.to_bytes(4, sys.byteorder)
        check(LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock rule {path}")
        os.close(handle)
    check(LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def filter_calls(program: bytes, number: int) -> None:
    """Load a seccomp program, by the newer call where possible: it does not slow speculation."""
    buffer = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(buffer)
    header = (len(program) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
    if LIBC.syscall(number, 1, 4, header) != 0:
        check(LIBC.prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


def open_descriptors() -> set[int]:
    """All descriptors of this process, the one used to list them included."""
    return {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208


def close_all(descriptors: set[int]) -> None:
    """Close descriptors that may be closed already."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue


def run(plan: dict, error: int) -> None:  # type: ignore[type-arg]  # plain values
    """Apply the plan to this process and execute the program."""
    for number in (SIGPIPE, SIGXFSZ):
        LIBC.signal(number, None)
    confine(plan, {error})
    os.execvpe(plan["argv"][0], plan["argv"], plan["environment"])


def confine(plan: dict, kept: set[int]) -> None:  # type: ignore[type-arg]  # plain values
    """Apply the plan to this process, which keeps these descriptors and the program's."""
    close_all(open_descriptors() - {0, 1, 2, *kept, *plan["fds"]})
    prctl(PR_SET_DUMPABLE, 1)
    os.umask(0o022)
    with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")
    for kind, soft, hard in plan["rlimits"]:
        resource.setrlimit(kind, (soft, hard))
    os.nice(plan["niceness"])
    if plan["unprivileged"]:
        drop_privileges(plan["uid"])
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.chdir(plan["directory"])
    if plan["landlock"]:
        apply_landlock(plan["landlock"])
    prctl(PR_SET_DUMPABLE, 1)  # another user is not
    if plan["seccomp"]:
        filter_calls(plan["seccomp"], plan["seccomp_number"])


def drop_privileges(uid: int | None) -> None:
    """Become `uid` if there is one, and drop all privileges for good."""
    for number in range(64):
        if prctl(PR_CAPBSET_DROP, number) < 0:
            break
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    keep_capabilities(0)
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")


def launch(plan: dict, control: int) -> int:  # type: ignore[type-arg]  # plain values
    reader, writer = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            send_line(control, "worker")
            run(plan, writer)
        except BaseException as error:  # noqa: BLE001  # the only way out of a fork is _exit
            os.write(writer, str(error).encode("utf-8", "replace")[:1000])
        os._exit(127)
    close_all(open_descriptors() - {0, 1, 2, control, reader})
    failure = os.read(reader, 1000)
    os.close(reader)
    if failure:
        fail(control, failure.decode("utf-8", "replace"))
    return worker


def fail(control: int, why: str) -> None:
    """Report why the program did not start, and exit."""
    send_line(control, f"failed {why}")
    os._exit(1)


def reap_orphans(control: int) -> None:
    """Reap until the launcher hangs up; this process's end is then that of all others in its namespace."""
    close_all(open_descriptors() - {0, 1, 2, control})
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    while not waiting.poll(1000) or os.read(control, 64):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            continue
    os._exit(0)


def reap(worker: int, control: int, *, alone: bool) -> int:
    """Wait for the worker and reap orphans; kill all when the launcher is gone. Returns its status."""
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    try:
        waiting.register(os.pidfd_open(worker), select.POLLIN)
        pause_ms = 1000
    except OSError:
        pause_ms = 20
    while True:
        ready = [descriptor for descriptor, _ in waiting.poll(pause_ms)]
        if control in ready and not os.read(control, 64):
            if alone:
                os._exit(0)
            waiting.unregister(control)
            kill_all()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                break
            if pid == worker:
                return status


def kill_all() -> None:
    """Kill every descendant, again until there is none: this process inherits their orphans."""
    while family := descendants():
        for pid in family:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return


def descendants() -> set[int]:
    parents = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in b"ZX" or int(fields[17]) > 1:  # threads may outlive the first
                parents[int(name)] = int(fields[1])
    family = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= found
    return family - {os.getpid()}


def main() -> None:
    control, mode = int(sys.argv[1]), sys.argv[2]
    os.chdir("/")
    features = {"bubblewrap": ["mount", "pid", "net", "ipc"], "none": []}.get(mode)
    if features is None:
        features = isolate()
    alone = "pid" in features
    prctl(PR_SET_PDEATHSIG, SIGKILL) if alone else prctl(PR_SET_CHILD_SUBREAPER, 1)
    send_line(control, "hello " + " ".join(features))
    plan = receive(control)
    try:
        if mode == "confined" and "mount" in features:
            set_up_mounts(plan, features)
    except OSError as error:
        fail(control, str(error))
    prctl(PR_SET_DUMPABLE, 0)
    worker = 0 if plan["forked"] else launch(plan, control)
    if plan["unprivileged"]:
        keep_capabilities(0 if alone else CAP_KILL)
    send_line(control, "started")
    if worker == 0:
        reap_orphans(control)
    status = reap(worker, control, alone=alone)
    if not alone:
        kill_all()
    send_line(control, f"exited {status}")
    os._exit(0)


if __name__ == "__main__":
    main()
