"""`kernelwright serve` as it is started, asked, ended and started again, with the real evaluator."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kernelwright.agent.cli.app import app
from kernelwright.agent.cli.evaluation.serve import TOKEN_VARIABLE
from kernelwright.agent.evaluation.service_client import ServiceClient, TimeUp
from kernelwright.agent.interop.verifiers_environment import service_evaluate
from kernelwright.agent.providers.endpoint import is_loopback_host
from kernelwright.evaluator import Candidate, EvaluationConfig, Status, read_problem

TOKEN = "a-token-that-nobody-guesses"
PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1

def get_inputs():
    return [torch.randn(16, 33)]
"""
CANDIDATE = """
import ctypes, time, torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        {}
"""
QUICK = EvaluationConfig(measure=False, trials=1, baselines=("eager",))


def candidate(body: str) -> Candidate:
    return Candidate(source=CANDIDATE.format(body), backend="cpp")


@dataclass
class Served:
    process: subprocess.Popen[str]
    url: str
    greeting: str
    said: str = ""

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        _, self.said = self.process.communicate(timeout=60)
        return self.process.returncode


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Served]:
    command = [
        sys.executable,
        "-m",
        "kernelwright.agent.cli",
        "serve",
        str(folder / "plus.py"),
        "--port",
        "0",
        *arguments,
    ]
    process = subprocess.Popen(
        [*command, "--state", str(folder / "state"), "--cache", str(folder / "cache")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {TOKEN_VARIABLE: f"another-token-of-mine,{TOKEN}"},
    )
    try:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        url = re.match(r"http://\S+", process.stdout.readline())
        assert url, process.communicate(timeout=30)
        yield Served(process, url[0], greeting)
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_real_candidates_are_judged_crash_and_outlive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "plus.py").write_text(PROBLEM)
    problem = read_problem(tmp_path / "plus.py")
    right, crash = candidate("return x + x + 1"), candidate("ctypes.string_at(0)")
    hangs = candidate("time.sleep(600)")
    with serving(tmp_path, "--drain", "1s") as served:
        client = ServiceClient(served.url, TOKEN)
        verdict = client.evaluate(problem, right, QUICK)
        assert (verdict.status, verdict.speedup, verdict.config.trials) == (Status.PASSED, None, 1)
        assert client.evaluate(problem, crash, QUICK).status is Status.RUNTIME_ERROR
        with pytest.raises(TimeUp, match=r"after 0\.5 s") as late:
            client.evaluate(problem, hangs, QUICK, timeout_s=0.5)
        evaluation = re.findall(r"[0-9a-f]{64}", str(late.value))[0]
        while client.look(evaluation)["stage"] != "verify":
            time.sleep(0.05)
        assert served.end() == 0
        assert "Traceback" not in served.said
        assert TOKEN not in served.said
    with serving(tmp_path) as served:
        assert "1 evaluations wait" in served.greeting
        # As a `verifiers` environment would ask.
        judging = service_evaluate(served.url, TOKEN)
        assert judging(problem, right, QUICK) == verdict
        client = ServiceClient(served.url, TOKEN)
        while client.look(evaluation)["state"] == "queued":
            time.sleep(0.05)
        assert client.cancel(evaluation)["state"] == "cancelled"
        assert served.end(signal.SIGINT) == 0


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `kernelwright serve` up to the point where it would answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["serve", *arguments], prog_name="kernelwright")

    return run


def test_it_does_not_listen_to_others_without_a_token(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "judge.example"):
        answer = serve("--host", host)
        assert (answer.exit_code, "--insecure-no-token" in answer.stderr) == (2, True)
    monkeypatch.setenv(TOKEN_VARIABLE, f"{TOKEN},short")
    answer = serve()
    assert (answer.exit_code, "fewer than 16" in answer.stderr) == (2, True)
    assert "short" not in answer.stderr.replace("shorter", "")
    assert [is_loopback_host(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4


def test_bad_input_is_named_in_one_line(serve: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, code, word in (
        (("--device", "cuda:99"), 3, "cuda:99"),
        (("--device", "gpu"), 2, "gpu"),
        (("--retain", "soon"), 2, "soon"),
        (("--limit", "total_s=-1"), 2, "total_s"),
        (("level9/99_none",), 2, "level9/99_none"),
        (("--host", "192.0.2.1", "--insecure-no-token"), 2, "192.0.2.1"),
        (("--port", "0", "--state", str(tmp_path / "file")), 3, "state folder"),
    ):
        answer = serve(*arguments)
        assert answer.exit_code == code, answer.stderr
        assert word in answer.stderr.splitlines()[-1]
        assert "Traceback" not in answer.stderr


def test_without_its_packages_it_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['fastapi'] = None\n"
        "sys.argv = ['kernelwright', 'serve']; from kernelwright.agent.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'kernelwright[service]'")
    assert len(done.stderr.splitlines()) == 1
