"""A run that is stopped at once says how to go on; one that could not be judged asks nobody first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.workspace import Provenance, Workspace
from tests.agent.cli.conftest import Command, Quick
from tests.agent.cli.test_live_endpoint import live, served
from tests.agent.providers.scripted import Step


def test_a_second_ctrl_c_names_the_way_back(kernelwright: Command, tmp_path: Path, quick: Quick) -> None:
    with served(lambda body, tries: Step(kind="hang")) as server:
        command = [sys.executable, "-m", "kernelwright.agent.cli", "run", *live(quick, server)]
        with subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[3])},
        ) as process:
            assert process.stderr is not None
            while server.in_flight == 0 and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert any("Ctrl-C again stops at once" in line for line in iter(process.stderr.readline, ""))
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    (run,) = Workspace(tmp_path).archive().runs()
    assert process.returncode == 130
    assert f"stopped at once; go on: kernelwright run --resume {run} --workspace ." in said
    assert "Traceback" not in said


AS_NOHUP_LEAVES_IT = """
import os, signal, sys
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Or not: the tests themselves may run under one."""


@pytest.mark.parametrize("ignored", [False, True])
def test_a_lost_terminal_costs_no_reply_that_is_on_its_way(
    kernelwright: Command, tmp_path: Path, quick: Quick, ignored: bool
) -> None:
    heeds = "SIG_IGN" if ignored else "SIG_DFL"
    with served(lambda body, tries: Step(text="no code", delay_s=2)) as server:
        command = [sys.executable, "-m", "kernelwright.agent.cli", "run", *live(quick, server)]
        with subprocess.Popen(
            [sys.executable, "-c", AS_NOHUP_LEAVES_IT, heeds, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[3])},
        ) as process:
            while server.in_flight == 0 and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGHUP)
            process.wait()
    archive = Workspace(tmp_path).archive()
    (run,) = archive.runs()
    assert [attempt.completion.reply for attempt in archive.attempts(run)][:1] == ["no code"]
    assert process.returncode == (1 if ignored else 130)


@pytest.mark.parametrize("command", ["run", "experiment"])
def test_a_machine_that_cannot_judge_asks_nobody(
    kernelwright: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    asked: list[Any] = []

    def script(body: dict[str, Any], tries: int) -> Step:
        asked.append(body)
        return Step()

    with served(script) as server:
        place = ("--base-url", server.base_url, "-m", "good-model", "--target", "h200")
        result = kernelwright(command, "square_matmul", "--backend", "cuda", "--device", "cuda:7", *place)
    assert (result.exit_code, "no device cuda:7 here" in result.stderr) == (3, True), result.output
    assert asked == []
    assert not (tmp_path / "runs").exists()


def test_an_unknown_run_or_kernel_is_a_usage_error_that_names_the_known_ones(
    kernelwright: Command, make: Any, tmp_path: Path
) -> None:
    kept = Workspace(tmp_path).keep(make.code(), make.evaluation(), Provenance())
    with make.log(tmp_path) as log:
        run = log.run
    shown = kernelwright("show", "zz")
    assert (shown.exit_code, kept.id in shown.stderr) == (2, True), shown.output
    resumed = kernelwright("run", "--resume", "zz")
    assert (resumed.exit_code, run in resumed.stderr) == (2, True), resumed.output
