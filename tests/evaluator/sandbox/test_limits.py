"""Limits: what a program inside uses up is bounded, and the report says what ended it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from kernelwright.evaluator import SandboxTier
from kernelwright.evaluator.sandbox import probe

if TYPE_CHECKING:
    from conftest import Inside


def test_a_memory_bomb_is_out_of_memory(inside: Inside) -> None:
    code = """
blocks = []
for _ in range(96):  # three times the limit: without one it ends by itself, and the machine lives on
    blocks.append(bytearray(b"x") * (8 << 20))
"""
    report, _ = inside.run(code)
    assert report.out_of_memory
    assert "memory" in report.reason


def test_memory_held_by_many_small_processes_counts_together(inside: Inside) -> None:
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(b"x") * (60 << 20)
        time.sleep(60)
        os._exit(0)
for _ in range(8):
    if os.wait()[1]:
        os._exit(3)
"""
    report, _ = inside.run(code)
    assert report.out_of_memory, report


def test_an_honest_program_is_not_out_of_memory(inside: Inside) -> None:
    report, _ = inside.run("block = bytearray(b'x') * (64 << 20)")
    assert (report.returncode, report.out_of_memory) == (0, False)


def test_a_fork_bomb_is_bounded(inside: Inside) -> None:
    code = """
import os, time
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
except OSError:
    print("refused")
print(started)
"""
    report, output = inside.run(code)
    refused, started = output.split()
    assert refused == "refused"
    assert int(started) <= inside.policy.processes + 8
    assert report.returncode == 0


def test_threads_are_bounded_too(inside: Inside) -> None:
    code = """
import threading, time
started = 0
try:
    while started < 500:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
except RuntimeError:
    print("refused", flush=True)
print(started, flush=True)
import os
os._exit(0)
"""
    _, output = inside.run(code)
    assert output.split()[0] == "refused"
    assert int(output.split()[1]) <= inside.policy.processes + 8


def test_scratch_is_bounded(inside: Inside) -> None:
    code = """
import os
folder = os.environ["TMPDIR"]
written = 0
try:
    for number in range(1000):
        with open(f"{folder}/{number}", "wb", buffering=0) as file:
            written += file.write(bytes(1 << 20))
except OSError as error:
    print(written >> 20)
else:
    import time; time.sleep(60)
"""
    report, output = inside.run(code, environment={"TMPDIR": "/tmp"})
    if "mount" in inside.start("").features:
        assert 0 < int(output) <= 32
    else:
        assert "scratch" in report.reason


def test_one_file_is_bounded(inside: Inside) -> None:
    code = """
import os
file = os.open(os.environ["TMPDIR"] + "/big", os.O_CREAT | os.O_WRONLY)
os.ftruncate(file, int(1e12))
"""
    report, _ = inside.run(code, environment={"TMPDIR": "/tmp"})
    assert report.returncode == 1 or report.signal == signal.SIGXFSZ


def test_a_spin_is_ended_by_its_cpu_limit(inside: Inside) -> None:
    report, _ = inside.run("while True: pass", cpu_s=1.0)
    assert report.signal in (signal.SIGXCPU, signal.SIGKILL)


def test_it_stands_back_as_far_as_asked(inside: Inside) -> None:
    code = "import os; print(os.nice(0))"
    here = os.nice(0)
    assert inside.run(code)[1] == f"{here}\n"
    assert inside.run(code, niceness=5)[1] == f"{min(19, here + 5)}\n"


def test_it_leaves_no_core_file(inside: Inside) -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert inside.run(code)[1] == "(1, 1)\n", "none would let a host's helper read it from a pipe"


def test_an_output_flood_is_bounded_and_does_not_block(inside: Inside) -> None:
    code = """
import os
os.write(1, b"first words\\n")
for _ in range(64):
    os.write(1, b"x" * 65536)
os.write(2, b"last words\\n")
"""
    report, output = inside.run(code)
    assert report.returncode == 0
    assert output.startswith("first words\nxxx")
    assert output.endswith("xxxlast words\n")
    assert "bytes left out" in output
    assert len(output) < 300_000


def test_output_is_harmless_text(inside: Inside) -> None:
    code = r"import os; os.write(1, b'\x1b[2J\x00\xff caf\xc3\xa9 \xe2\x80\xae\r\n\tend')"
    assert inside.run(code)[1] == "\\x1b[2J\\x00� café \\u202e\\r\n\tend"


def test_the_report_says_what_protected_the_machine(inside: Inside) -> None:
    report = inside.start("").report
    assert report.tier == inside.policy.tier
    assert report.limits == probe().limits
    assert report.seccomp
    if inside.policy.tier is SandboxTier.BUBBLEWRAP:
        assert report.uid == ("dedicated" if probe().dedicated_uid else "own")
