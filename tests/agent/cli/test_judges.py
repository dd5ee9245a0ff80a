"""Runs judged by `kernelwright serve` elsewhere, with processes that are killed on either side."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.cli.evaluation.serve import TOKEN_VARIABLE
from kernelwright.agent.evaluation.service_client import ServiceClient
from kernelwright.agent.records.attempt_log import EvaluationRecorded, EvaluatorFailed
from kernelwright.agent.setup import judge_setup
from kernelwright.agent.setup.judge_setup import judges_of, tokens_of
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import Status
from tests.agent.cli.conftest import MODEL, PROBLEM, Command, block

TOKEN = "a-token-of-both-judges"
SAMPLES = 2


@dataclass
class Judge:
    """A service that is killed and started again at one address."""

    folder: Path
    problems: tuple[Path, ...]
    port: int = 0
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = (
            *("--port", str(self.port), "--state", str(self.folder / "state"), "--workers", "1"),
            *("--cache", str(self.folder / "cache"), "--device", "cpu"),
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kernelwright.agent.cli", "serve", *map(str, self.problems), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {TOKEN_VARIABLE: TOKEN},
        )

    def wait_until_ready(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.stdout.readline()
        self.port = int(re.findall(r":(\d+)", self.process.stdout.readline())[0])

    def kill(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ended(self) -> list[tuple[str, str]]:
        """Candidate and status of each evaluation that came to its end, once for each time."""
        with sqlite3.connect(self.folder / "state" / "evaluations.sqlite") as file:
            rows = file.execute("SELECT verdict FROM result").fetchall()
        file.close()
        found = [json.loads(row[0]) for row in rows]
        return [(one["problem"] + one["candidate_sha"], one["status"]) for one in found]


@pytest.fixture
def judges(tmp_path: Path) -> Iterator[tuple[Judge, Judge]]:
    problems = tuple(tmp_path / f"{name}.py" for name in ("first", "second"))
    for path in problems:
        path.write_text(f"{PROBLEM}\n# {path.stem}\n")
    found = Judge(tmp_path / "a", problems), Judge(tmp_path / "b", problems)
    for judge in found:
        judge.folder.mkdir()
        judge.start()
    for judge in found:
        judge.wait_until_ready()
    yield found
    for judge in found:
        judge.kill()


def client(folder: Path, *arguments: str, urls: tuple[str, ...]) -> subprocess.Popen[str]:
    environment = os.environ | {"KERNELWRIGHT_JUDGE": ",".join(urls), judge_setup.TOKEN_VARIABLE: TOKEN}
    return subprocess.Popen(
        [sys.executable, "-m", "kernelwright.agent.cli", "run", *arguments, "--json-lines"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )


def follow(process: subprocess.Popen[str], until: Callable[[dict[str, Any]], bool]) -> None:
    """Read a client's events until one is there."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("{") and until(json.loads(line)):
            return
    raise AssertionError("".join(said))


def test_a_run_survives_kills_of_a_judge_and_of_itself(tmp_path: Path, judges: tuple[Judge, Judge]) -> None:
    for name in ("first", "second"):
        replies = tmp_path / "replies" / name / "cpp"
        for number in range(SAMPLES):
            folder = replies / f"sample-{number}" if number else replies
            folder.mkdir(parents=True)
            slow = f"(__import__('time').sleep({0.05 + number / 100}), x * 2 + {1 if number else 2})[1]"
            (folder / "00.md").write_text(block(slow))
    urls = tuple(judge.url for judge in judges)
    problems = (str(tmp_path / "first.py"), str(tmp_path / "second.py"))
    policy = ("--shapes", "tiny", "--no-time", "--sanitize", "off", "--set", "evaluation.trials=1")
    asked = ("--recordings", str(tmp_path / "replies"), "--strategy", "sample", "-n", str(SAMPLES))
    first = client(*(tmp_path, *problems, "--backend", "cpp", *asked, *policy, "--no-plain-build"), urls=urls)
    follow(first, lambda event: event["event"] == "StageEntered" and event["stage"] == "verify")
    with_work = max(judges, key=lambda judge: running(judge.url))
    with_work.kill()
    with_work.start()
    with_work.wait_until_ready()
    follow(first, lambda event: event["event"] == "Judged")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = client(tmp_path, "--resume", "last", urls=urls)
    said = second.communicate(timeout=120)[0]
    assert second.returncode == 0, said
    check(tmp_path, judges)
    assert TOKEN not in said
    assert not any(TOKEN in path.read_text("utf-8", "replace") for path in (tmp_path / "runs").rglob("*.*"))


def running(url: str) -> int:
    return int(ServiceClient(url, TOKEN).once("GET", "/healthz")["running"])


def check(folder: Path, judges: tuple[Judge, Judge]) -> None:
    """Every reply has one evaluation, the right one, and no judge ended one that another had ended."""
    archive = Workspace(folder).archive()
    (run,) = archive.runs()
    attempts = list(archive.attempts(run))
    assert Counter(attempt.status for attempt in attempts) == {
        Status.WRONG_VALUES: 2,
        Status.PASSED: 2 * (SAMPLES - 1),
    }
    lines = list(archive.lines(run))
    evaluated = [line.attempt for line in lines if isinstance(line, EvaluationRecorded)]
    assert sorted(evaluated) == sorted(attempt.id for attempt in attempts)
    assert not any(isinstance(line, EvaluatorFailed) for line in lines)
    ended = [one for judge in judges for one in judge.ended()]
    assert len({name for name, _ in ended}) == len(ended) == len(attempts)


def test_one_file_and_saved_kernels_are_judged_elsewhere(
    kernelwright: Command, tmp_path: Path, judges: tuple[Judge, Judge], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judges[0]
    quick = ("--shapes", "tiny", "--no-time", "--sanitize", "off", "--judge", judge.url)
    (tmp_path / "kernel.py").write_text(MODEL.format("x + x + 1"))
    asked = ("evaluate", "kernel.py", "-p", "first.py", "-b", "cpp", *quick)
    refused = kernelwright(*asked)
    assert (refused.exit_code, "KERNELWRIGHT_JUDGE_TOKEN" in refused.stderr) == (2, True)
    monkeypatch.setenv(judge_setup.TOKEN_VARIABLE, TOKEN)
    answer = kernelwright(*asked, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout)["status"] == "PASSED"
    (tmp_path / "first_0.py").write_text(MODEL.format("x + 1 + x"))
    taken = kernelwright("import", "first_0.py", "-p", "first.py", "-b", "cpp", "--evaluate", *quick)
    assert taken.exit_code == 0, taken.stderr
    assert "without a build with torch's own headers" in taken.stderr
    (kernel,) = Workspace(tmp_path).kernels()
    for _ in range(2):
        # The second command takes the result of the first.
        again = kernelwright(
            "verify", "-p", "first.py", "--results", "r.jsonl", "--judge", judge.url, "--json"
        )
        assert again.exit_code == 0, again.stderr
        (found,) = json.loads(again.stdout)
        assert (found["kernel"], found["outcome"]) == (kernel.id, "reproduced")
    assert Counter(name for name, _ in judge.ended()).most_common(1)[0][1] == 2
    assert len(judge.ended()) == 3
    with_sandbox = kernelwright(*asked, "--sandbox", "none")
    assert (with_sandbox.exit_code, "operator decides sandbox" in with_sandbox.stderr) == (2, True)


def test_addresses_and_tokens_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernelwright: Command
) -> None:
    monkeypatch.setenv(judge_setup.JUDGE_VARIABLE, "http://a:1, https://b,http://a:1")
    assert judges_of(RunSettings()) == ("http://a:1", "https://b")
    assert judges_of(RunSettings(judges=("http://c",))) == ("http://c",)
    file = tmp_path / "tokens.toml"
    file.write_text('"https://b/" = "of b"\n')
    monkeypatch.setenv(judge_setup.TOKEN_FILE_VARIABLE, str(file))
    monkeypatch.setenv(judge_setup.TOKEN_VARIABLE, "of all")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        tokens_of(["https://b"])
    file.chmod(0o600)
    assert tokens_of(["http://127.0.0.1:1", "https://b"]) == {
        "http://127.0.0.1:1": "of all",
        "https://b": "of b",
    }
    file.write_text("secret-without-quotes")
    with pytest.raises(UsageError) as caught:
        tokens_of(["https://b"])
    assert "secret" not in str(caught.value)
    monkeypatch.setenv(judge_setup.JUDGE_VARIABLE, "http://me:secret@a")
    with pytest.raises(UsageError, match="holds a user or a password"):
        judges_of(RunSettings())
    for address in ("judge:1", "http://me:secret@a", "http://a?token=secret"):
        answer = kernelwright("evaluate", "kernel.py", "-p", "p", "--judge", address)
        assert answer.exit_code == 2


@pytest.fixture(autouse=True)
def _no_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (judge_setup.JUDGE_VARIABLE, judge_setup.TOKEN_VARIABLE, judge_setup.TOKEN_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
