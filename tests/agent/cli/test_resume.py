"""A run that is killed goes on where it was: nothing asked twice, nothing lost, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kernelwright.agent.records.attempt_log import CompletionRecorded, EvaluationRecorded
from kernelwright.agent.setup.preparation import RunPlace, prepare
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import EvaluationConfig, SandboxTier
from tests.agent.cli.conftest import ESCAPING, MODEL, Command, Quick, without

MODULE = '''import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
constexpr int64_t TILE = 16;
at::Tensor twice(at::Tensor x) {
    at::Tensor y = at::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    const int64_t count = BOUND;
    for (int64_t again = 0; again < REPEATS; again++)
        for (int64_t i = 0; i < count; i++) {
            volatile float seen = from[i];
            to[i] = seen * 2 + 1;
        }
    return y;
}
"""
built = load_inline("twice", cpp_sources=source, functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.twice(x)
'''
WHOLE, TILED = "x.numel()", "x.numel() / TILE * TILE"


def turn(bound: str = WHOLE, repeats: int = 1) -> str:
    """A reply with one version of the module."""
    code = MODULE.replace("BOUND", bound).replace("REPEATS", str(repeats))
    return f"```python\n{code}```\n"


def descendants(root: int) -> set[int]:
    """Process ids below one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found - {root}


def alive(pids: set[int]) -> set[int]:
    """Those that still run."""
    found = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.add(pid)
    return found


def killed_at(moment: str, arguments: tuple[str, ...], folder: Path) -> set[int]:
    """Start a run, kill it with SIGKILL at an event, and give the processes it had started."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "KERNELW"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelwright.agent.cli", "run", *arguments, "--json-lines"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if moment in (event["event"], event.get("stage")):
            break
    else:
        pytest.fail(f"the run ended without {moment}")
    started = descendants(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    return started


def assert_it_goes_on(kernelwright: Command, folder: Path, started: set[int], statuses: list[str]) -> None:
    """Resume a killed run: it ends as an undisturbed one, and nothing it had started lives on."""
    resumed = kernelwright("run", "--resume", "last", "--quiet")
    assert resumed.exit_code == 0, resumed.output
    archive = Workspace(folder).archive()
    (run,) = archive.runs()
    assert [attempt.status for attempt in archive.attempts(run)] == statuses
    lines = Counter(type(line) for line in archive.lines(run))
    assert lines[CompletionRecorded] == len(statuses)
    assert lines[EvaluationRecorded] == len(statuses)
    assert len(list(Workspace(folder).kernels())) == 1
    deadline = time.monotonic() + 30
    while alive(started) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(started) == set()


@pytest.mark.parametrize(
    "moment",
    [
        "Replied",
        "verify",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("RunOpened", "Asking", "screen", "load", "Judged", "Kept", "AssignmentFinished")
        ),
    ],
)
def test_a_killed_run_goes_on(kernelwright: Command, tmp_path: Path, quick: Quick, moment: str) -> None:
    started = killed_at(moment, quick, tmp_path)
    assert_it_goes_on(kernelwright, tmp_path, started, ["WRONG_VALUES", "PASSED"])


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["build", "time", "attribute", "sanitize"])
def test_a_run_killed_in_a_later_stage_goes_on(
    kernelwright: Command, tmp_path: Path, quick: Quick, moment: str
) -> None:
    for path in (tmp_path / "replies").rglob("*.md"):
        path.write_text(turn())
    timed = tuple(item for item in quick if item != "--no-time")
    started = killed_at(
        moment, (*timed, "--turns", "1", "--baselines", "eager", "--no-plain-build"), tmp_path
    )
    assert_it_goes_on(kernelwright, tmp_path, started, ["PASSED"])


def test_a_plan_of_others_lowers_no_sandbox(kernelwright: Command, tmp_path: Path, quick: Quick) -> None:
    mark = tmp_path / "escaped"
    right = MODEL.format("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))")
    for path in (tmp_path / "replies").rglob("*.md"):
        path.write_text(f"```python\n{right}{ESCAPING.format(str(mark))}```\n")
    asked = (*without(quick, "--turns"), "--set", "plain_build=false", "--sandbox", "none", "--quiet")
    assert kernelwright("generate", *asked).exit_code == 0
    assert not mark.exists()
    resumed = kernelwright("run", "--resume", "last", "--quiet", "--cache", quick[-1])
    assert resumed.exit_code == 0, resumed.output
    assert "was planned with --sandbox none" in resumed.stderr and not mark.exists()
    (attempt,) = Workspace(tmp_path).archive().attempts()
    assert attempt.evaluation is not None
    assert attempt.evaluation.score.sandbox not in (None, "none")


def test_the_sandbox_may_be_given_anew_and_no_other_setting_of_evaluations(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    arguments = (*without(quick, "--turns"), "--sandbox", "none", "--quiet")
    assert kernelwright("generate", *arguments).exit_code == 0
    place = RunPlace(tmp_path)
    assert prepare(place, RunSettings(), resume="last").plan.config.sandbox is None
    chosen = RunSettings(evaluation=EvaluationConfig(sandbox=SandboxTier.NONE))
    assert prepare(place, chosen, resume="last").plan.config.sandbox is SandboxTier.NONE
    refused = kernelwright("run", "--resume", "last", "--sandbox", "none", "--math", "bf16")
    assert (refused.exit_code, "leave out: evaluation.math" in refused.stderr) == (2, True), refused.output
