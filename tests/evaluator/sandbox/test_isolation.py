"""What a program inside cannot see, reach or do."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright import evaluator
from kernelwright.evaluator.sandbox import Bind, probe

if TYPE_CHECKING:
    from conftest import Inside

CALL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    ctypes.set_errno(0)
    done = libc.syscall(*arguments)
    print(name, "done" if done >= 0 else errno.errorcode[ctypes.get_errno()])
"""


@pytest.fixture
def canary() -> Iterator[Path]:
    """A file in the home folder, readable by everybody who gets there."""
    path = Path.home() / f".kernelwright-canary-{secrets.token_hex(4)}"
    path.write_text("canary")
    path.chmod(0o644)
    yield path
    path.unlink()


def test_it_has_no_privileges(inside: Inside) -> None:
    code = "import os; print(open('/proc/self/status').read(), os.getresuid(), os.getgroups())"
    _, output = inside.run(code)
    fields = dict(re.findall(r"^(\w+):\s*(\S+)", output, re.MULTILINE))
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0, name
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    if not any("as root" in gap for gap in probe().tiers[inside.policy.tier].gaps):
        assert "(0, " not in output
        assert "[]" in output or os.getuid() != 0


def test_its_environment_is_what_the_policy_says(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "canary")
    _, output = inside.run("import os; print(dict(os.environ)); print(open('/proc/self/environ').read())")
    assert "SECRET_KEY" not in output
    assert "'GREETING': 'hello'" in output


def test_the_drivers_environment_is_out_of_reach(inside: Inside) -> None:
    code = """
import glob, sys
for file in [f"/proc/{sys.argv[1]}/environ", *glob.glob("/proc/[0-9]*/environ")]:
    try:
        print(file, open(file).read())
    except OSError as error:
        print(error)
"""
    canary = secrets.token_hex(8)
    driver = f"""
import os, sys
from kernelwright.evaluator.sandbox import (Launcher, SandboxPolicy)
from kernelwright.evaluator import SandboxTier
with Launcher() as launcher:
    policy = SandboxPolicy(tier=SandboxTier({inside.policy.tier.value!r}), memory_bytes=1 << 28, processes=16,
        file_bytes=1 << 20, scratch_bytes=1 << 20, environment={{}})
    running = launcher.start((sys.executable, "-I", "-c", {code!r}, str(os.getpid())), policy)
    print(running.wait(60), running.output())
"""
    environment = {**os.environ, "SECRET_KEY": canary, "PYTHONPATH": str(Path(evaluator.__file__).parents[2])}
    done = subprocess.run(
        (sys.executable, "-c", driver), capture_output=True, text=True, env=environment, check=True
    )
    assert "exited with 0" in done.stdout
    assert "/environ" in done.stdout
    assert canary not in done.stdout


def test_files_outside_its_binds_cannot_be_read(inside: Inside, canary: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    beside = tmp_path / "beside"
    beside.write_text("canary")
    source = Path(evaluator.__file__).parent / "schema" / "errors.py"
    code = """
import os, sys
for name in sys.argv[1:]:
    try:
        print(open(name).read() if not os.path.isdir(name) else os.listdir(name))
    except OSError as error:
        print(type(error).__name__)
"""
    names = [canary, beside, source, "/etc/shadow", "/var/log", "/home", canary.parent]
    _, output = inside.run(code, *names)
    assert "canary" not in output
    assert "EvaluatorError" not in output
    assert len(re.findall(r"^(FileNotFoundError|PermissionError)$", output, re.MULTILINE)) >= len(names) - 1


def test_nothing_outside_its_scratch_can_be_written(inside: Inside, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    targets = [
        tmp_path,
        "/",
        "/etc",
        "/usr",
        "/usr/lib",
        "/dev",
        "/run",
        sys.prefix,
        sys.base_prefix,
        "/sys",
        "/proc",
    ]
    code = """
import sys
for folder in sys.argv[1:]:
    try:
        open(folder + "/planted", "w").write("x")
        print("WROTE", folder)
    except OSError:
        pass
print("tried")
"""
    _, output = inside.run(code, *targets)
    assert "WROTE" not in output
    assert "tried" in output
    assert not list(tmp_path.iterdir())


def test_a_read_only_bind_is_read_only_and_a_writable_one_is_not(inside: Inside, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    given, job = tmp_path / "given", tmp_path / "job"
    for folder in (given, job):
        folder.mkdir()
        folder.chmod(0o755)
    (given / "input").write_text("data")
    (given / "input").chmod(0o666)
    (job / "old").write_text("old")
    code = """
import os, sys
given, job = sys.argv[1:]
print(open(given + "/input").read())
open(job + "/output", "w").write("result")
open(job + "/old", "a").write(" and new")
os.rename(job + "/output", job + "/renamed")
try:
    open(given + "/input", "w")
except OSError as error:
    print("refused")
"""
    report, output = inside.run(code, given, job, binds=(Bind(given), Bind(job, writable=True)))
    assert (report.returncode, output) == (0, "data\nrefused\n")
    assert (job / "renamed").read_text() == "result"
    assert (job / "old").read_text() == "old and new"


def test_the_network_is_out_of_reach(inside: Inside) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"kernelwright-test-{secrets.token_hex(4)}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        code = """
import socket, sys
internet, abstract = ("127.0.0.1", int(sys.argv[1])), "\\0" + sys.argv[2]
for family, address in ((socket.AF_INET, internet), (socket.AF_UNIX, abstract)):
    try:
        with socket.socket(family) as client:
            client.settimeout(5)
            client.connect(address)
        print("CONNECTED", family)
    except OSError:
        print("refused")
for family in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG):
    try:
        socket.socket(family, socket.SOCK_RAW).close()
        print("CREATED", family)
    except OSError:
        print("refused")
"""
        _, output = inside.run(code, server.getsockname()[1], name)
    assert output.count("refused") == 6, output


def test_only_tools_in_a_network_of_their_own_have_internet_sockets(inside: Inside) -> None:
    code = """
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    print("created")
except OSError:
    print("refused")
"""
    running = inside.start(code)
    assert running.wait(60)
    assert running.output() == "refused\n"
    _, output = inside.run(code, nested=True)
    assert output == ("created\n" if "net" in running.features else "refused\n")


def test_it_sees_only_its_own_processes(inside: Inside) -> None:
    code = "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))"
    running = inside.start(code)
    assert running.wait(60)
    if "pid" in running.features:
        assert running.output().startswith("[1, ")
        assert len(running.output().split()) == 2
    else:
        assert "PermissionError" in running.output()


def test_its_reaper_cannot_be_touched(inside: Inside) -> None:
    code = """
import os
reaper = os.getppid() or 1  # a forked program's parent is in no namespace of its own
for attempt in (
    lambda: open(f"/proc/{reaper}/mem", "r+b"),
    lambda: os.readlink(f"/proc/{reaper}/fd/0"),
    lambda: open(f"/proc/{reaper}/environ").read(),
    lambda: os.kill(reaper, 0) or os.kill(reaper, 9) or os.kill(reaper, 9),
):
    try:
        attempt()
        print("done")
    except OSError:
        print("refused")
print("alive" if os.getppid() in (0, reaper) else "orphan")
"""
    report, output = inside.run(code)
    lines = output.split()
    assert lines[:3] == ["refused"] * 3
    assert lines[-1] == "alive"
    assert report.returncode == 0


def test_calls_that_reach_around_namespaces_are_refused(inside: Inside) -> None:
    code = (
        CALL
        + """
import platform
x86 = platform.machine() == "x86_64"
attempt("ptrace", 101 if x86 else 117, 0, 0, 0, 0)
attempt("process_vm_readv", 310 if x86 else 270, 1, 0, 0, 0, 0, 0)
attempt("unshare", 272 if x86 else 97, 0x10000000)
attempt("setns", 308 if x86 else 268, 0, 0)
attempt("clone-newuser", 56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)
attempt("clone-parent", 56 if x86 else 220, 0x8000 | 17, 0, 0, 0, 0)
attempt("clone3", 435, 0, 0)
attempt("keyctl", 250 if x86 else 219, 0, 0)
attempt("bpf", 321 if x86 else 280, 0, 0, 0)
attempt("perf_event_open", 298 if x86 else 241, 0, 0, 0, 0, 0)
attempt("userfaultfd", 323 if x86 else 282, 0)
attempt("io_uring_setup", 425, 1, 0)
attempt("io_setup", 206 if x86 else 0, 1, 0)
attempt("mount", 165 if x86 else 40, b"none", b"/tmp", b"tmpfs", 0, 0)
attempt("remount", 165 if x86 else 40, b"none", b"/", b"", 32, 0)
attempt("umount2", 166 if x86 else 39, b"/proc", 2)
attempt("pivot_root", 155 if x86 else 41, b"/", b"/")
attempt("chroot", 161 if x86 else 51, b"/tmp")
attempt("open_by_handle_at", 304 if x86 else 265, 0, 0, 0)
attempt("init_module", 175 if x86 else 105, 0, 0, b"")
attempt("kexec_load", 246 if x86 else 104, 0, 0, 0, 0)
attempt("reboot", 169 if x86 else 142, 0, 0, 0, 0)
attempt("swapon", 167 if x86 else 224, b"/tmp/x", 0)
attempt("settimeofday", 164 if x86 else 170, 0, 0)
attempt("sethostname", 170 if x86 else 161, b"x", 1)
"""
    )
    _, output = inside.run(code)
    answers = dict(line.split() for line in output.splitlines())
    assert answers.pop("clone3") == "ENOSYS"
    assert set(answers.values()) == {"EPERM"}, answers


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has a second system-call table")
def test_the_x32_table_is_refused(inside: Inside) -> None:
    _, output = inside.run(CALL + "attempt('getpid', 0x40000000 | 39)")
    assert output == "getpid ENOSYS\n"


def test_ptrace_among_its_own_is_allowed_when_nested(inside: Inside) -> None:
    code = (
        CALL + "attempt('traceme', 101 if __import__('platform').machine() == 'x86_64' else 117, 0, 0, 0, 0)"
    )
    assert inside.run(code, nested=True)[1] == "traceme done\n"


def test_typing_into_the_terminal_is_refused(inside: Inside) -> None:
    code = """
import errno, fcntl
try:
    fcntl.ioctl(0, 0x5412, b"x")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert inside.run(code)[1] == "EPERM\n"


def test_programs_that_it_starts_have_a_standard_input(inside: Inside) -> None:
    code = """
import subprocess, sys
subprocess.run([sys.executable, "-I", "-S", "-c", "import sys; print(repr(sys.stdin.read()))"])
"""
    assert inside.run(code)[1] == "''\n"


def test_torch_works_without_complaint(inside: Inside) -> None:
    code = "import torch; print((torch.ones(64, 64) @ torch.ones(64, 64)).sum().item())"
    roomy = replace(inside.policy, memory_bytes=4 << 30, processes=64)
    running = inside.launcher.start((sys.executable, "-I", "-c", code), roomy)
    report = running.wait(120)
    assert report is not None
    assert (report.returncode, running.output()) == (0, "262144.0\n")
