"""Starts a sandbox: spawns its processes, puts them into their cgroups and sends the plan."""

from __future__ import annotations

import importlib.util
import marshal
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path

from kernelwright.evaluator.sandbox.isolation import bubblewrap, landlock_tier, uid_pool
from kernelwright.evaluator.sandbox.isolation.cgroups import ControlGroup
from kernelwright.evaluator.sandbox.isolation.sandbox_policy import SandboxPolicy
from kernelwright.evaluator.sandbox.policy import EXTRA_PROCESSES, START_S
from kernelwright.evaluator.sandbox.process import init_plan, process_tree
from kernelwright.evaluator.sandbox.process.control_channel import ControlChannel, ControlLine, passing_file
from kernelwright.evaluator.sandbox.process.fork_servers import ForkServers, OpenNamespaces
from kernelwright.evaluator.sandbox.process.init_plan import StartRequest
from kernelwright.evaluator.sandbox.process.sandboxed_process import SandboxProcesses, SandboxResources
from kernelwright.evaluator.sandbox.process.spawn_thread import SpawnThread
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError

SYS_ADMIN = 21
FORKED_INTO = frozenset({"mount", "pid"})
"""Namespaces without which `init` starts every program: it alone ends all of a tree."""
INIT = Path(__file__).resolve().with_name("init.py")


def gives_users(tier: SandboxTier) -> bool:
    """True where a sandbox of this tier gets a user of its own."""
    if tier is SandboxTier.NONE or not uid_pool.may_switch():
        return False
    return tier is SandboxTier.CONFINED or uid_pool.has_capabilities(SYS_ADMIN)


def interpreter() -> str:
    """The real path of the running interpreter, outside any virtual environment."""
    return str(Path(sys.executable).resolve())


@cache
def compiled_init() -> bytes:
    """`init` as byte code: compiling it takes longer than starting the interpreter."""
    code = compile(INIT.read_bytes(), INIT.name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def spawn(
    request: StartRequest, resources: SandboxResources, spawner: SpawnThread, init_code: int
) -> subprocess.Popen[bytes]:
    """Start the processes around the program, which wait for the plan; `init_code` is a file of byte code.

    Raises:
        MachineError: bubblewrap is missing, or cannot be executed.
    """
    control = resources.control
    command = [interpreter(), "-I", "-S", "-B", f"/proc/self/fd/{init_code}", str(control.child)]
    command += [request.policy.tier.value, request.name]
    passed = (control.child, init_code, *request.fds)
    try:
        if request.policy.tier is SandboxTier.BUBBLEWRAP:
            return _spawn_bubblewrap(request, resources, spawner, command, passed)
        monitor = spawner.spawn(command, stdin=subprocess.DEVNULL, stdout=request.output, fds=passed)
    except OSError as error:
        raise MachineError(f"cannot start a sandbox: {error}") from error
    finally:
        control.close_child()
    _bound(resources.group, request.policy, monitor.pid)
    return monitor


def start_program(
    request: StartRequest,
    monitor: subprocess.Popen[bytes],
    resources: SandboxResources,
    servers: ForkServers,
) -> tuple[SandboxProcesses, int | None]:
    """Have `init` or a fork server start the program; also returns its user. Raises MachineError."""
    deadline = time.monotonic() + START_S
    policy = request.policy
    hello = _expect(resources, "hello", deadline)
    _bound(resources.group, policy, hello.pid)
    features = frozenset(hello.rest.split())
    if policy.tier is SandboxTier.BUBBLEWRAP and resources.lease is None:
        features |= {"user"}
    uid = _user(resources, policy, features)
    if "mount" not in features:
        resources.scratch = _make_scratch(request.name)
    _give_access(policy, resources.scratch, uid)
    state = init_plan.SandboxFeatures(
        namespaces=features,
        uid=uid,
        scratch=resources.scratch,
        group=resources.group,
        forked=bool(request.preload) and features >= FORKED_INTO,
    )
    plan = init_plan.plan(request, state)
    # With its plan `init` lets nobody look at it any more.
    with closing(OpenNamespaces(hello.pid)) if state.forked else nullcontext() as namespaces:
        resources.control.send(plan)
        if namespaces is not None:
            _expect(resources, "started", deadline)
            resources.init, resources.control = resources.control, ControlChannel()
            try:
                servers.fork(request, namespaces, resources.control.child)
            finally:
                resources.control.close_child()
            deadline = time.monotonic() + START_S  # the server may have imported for longer
    worker = _expect(resources, "worker", deadline)
    supervisor = None
    if state.forked:
        _bound(resources.group, policy, worker.pid)
        forked = process_tree.read_process(worker.pid)
        supervisor = forked.parent if forked else None
        resources.control.send(plan)
    _expect(resources, "started", deadline)
    return SandboxProcesses(monitor, hello.pid, worker.pid, features, supervisor), uid


def _spawn_bubblewrap(
    request: StartRequest,
    resources: SandboxResources,
    spawner: SpawnThread,
    command: list[str],
    fds: tuple[int, ...],
) -> subprocess.Popen[bytes]:
    program = bubblewrap.find_bubblewrap()
    if program is None:
        raise MachineError("bubblewrap is not installed: apt-get install bubblewrap")
    uid = resources.lease.uid if resources.lease else None
    passwd, group = bubblewrap.users(os.getuid() if uid is None else uid)
    reader, information = os.pipe()
    files = [passing_file("passwd", passwd), passing_file("group", group), information]
    try:
        named = dict(zip(("passwd", "group", "information"), files, strict=True))
        words = bubblewrap.arguments(program, request.policy, uid, **named)
        files.append(passing_file("arguments", b"\0".join(map(os.fsencode, words))))
        command = [str(program.path), "--args", str(files[-1]), "--", *command]
        fds = (*fds, *files)
        monitor = spawner.spawn(command, stdin=subprocess.DEVNULL, stdout=request.output, fds=fds)
    except BaseException:
        os.close(reader)
        raise
    finally:
        for descriptor in files:
            os.close(descriptor)
    child = bubblewrap.read_child(reader)
    os.close(reader)
    if child is not None:
        _bound(resources.group, request.policy, child)
    return monitor


def _bound(group: ControlGroup, policy: SandboxPolicy, pid: int) -> None:
    try:
        group.bound(memory_bytes=policy.memory_bytes, tasks=policy.processes + EXTRA_PROCESSES)
        group.add(pid)
    except ProcessLookupError:
        return
    except OSError as error:
        raise MachineError(f"cannot bound a sandbox with its control group: {error}") from error


def _expect(resources: SandboxResources, word: str, deadline: float) -> ControlLine:
    """Receive the line that must come next; otherwise raise what bubblewrap or `init` reported."""
    try:
        line = resources.control.receive(deadline)
    except TimeoutError:
        raise MachineError(f"a sandbox did not start within {START_S:.0f} s") from None
    if line is None:
        resources.capture.ended.wait(1.0)
        printed = resources.capture.text().strip() or "it printed nothing"
        raise MachineError(f"a sandbox did not start: {printed}")
    if line.word != word:
        raise MachineError(f"a sandbox did not start: {line.rest}")
    return line


def _user(resources: SandboxResources, policy: SandboxPolicy, features: frozenset[str]) -> int | None:
    if resources.lease is None:
        return None
    if policy.tier is SandboxTier.CONFINED and "mount" not in features:
        sources = (bind.source for bind in landlock_tier.visible(policy))
        if any(map(landlock_tier.closed_ancestor, sources)):
            return None
    return resources.lease.uid


def _make_scratch(name: str) -> Path:
    """A folder for the sandbox in a folder of ours: cleanup removes only folders of its own user."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}scratch-"))
    folder.chmod(0o711)
    (folder / "tmp").mkdir(mode=0o700)
    return folder / "tmp"


def _give_access(policy: SandboxPolicy, scratch: Path | None, uid: int | None) -> None:
    if uid is None:
        return
    for bind in policy.binds:
        if bind.writable:
            _change_owner(bind.source, uid)
        elif not bind.source.stat().st_mode & 0o004:
            raise MachineError(f"{bind.source} is not readable by the sandbox's own user: chmod o+rX it")
    if scratch:
        _change_owner(scratch, uid)


def _change_owner(path: Path, uid: int) -> None:
    os.chown(path, uid, uid, follow_symlinks=False)
    for _, folders, files, descriptor in os.fwalk(path, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)
