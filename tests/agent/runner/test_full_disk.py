"""A disk that fills up in the middle of a run: every paid reply is kept, and the run goes on later."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import importlib.util, subprocess, sys
from pathlib import Path
root, disk = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], check=True)
sys.path.insert(0, str(root))
spec = importlib.util.spec_from_file_location("tools", root / "tests/agent/conftest.py")
tools = sys.modules["tools"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)
from kernelwright.agent.strategies.sample import Sample
bench = tools.Bench(disk)
def script(request):
    return f"{request.sample} " * 100_000 + tools.MAKE.reply(f"PASSED 2 {request.sample}")
provider = tools.ScriptedProvider(script, delay_s=0.01)
summary = bench.run(bench.plan(1, strategy=Sample(samples=120)), provider, completions=4)
print(summary.end, summary.reason.startswith("disk full below"), summary.attempts == provider.answered)
subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
asked = len(provider.requests)
summary = bench.go_on(provider, completions=4)
print(summary.end, summary.attempts, summary.evaluated, summary.kept, len(provider.requests) == 120)
archive = bench.workspace.archive()
print(all(archive.reply(attempt.completion) for attempt in archive.attempts()))
"""


def namespace() -> list[str]:
    """How this machine lets a test mount a small disk of its own."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if (
            shutil.which("unshare")
            and not subprocess.run(
                [*command, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True
            ).returncode
        ):
            return command
    pytest.skip("no mount namespace for a small disk here")


def test_no_reply_is_lost_when_the_disk_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [*namespace(), sys.executable, program, ROOT, disk], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["broken True True", "complete 120 120 120 True", "True"]
