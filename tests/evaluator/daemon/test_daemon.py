"""The daemon: commands share a warm evaluator, and nobody is worse off when it dies."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    EvaluationConfig,
    Evaluator,
    SandboxTier,
    Stage,
    evaluate_warm,
    problem_from_source,
    running_daemons,
    stop_daemons,
)
from kernelwright.evaluator.daemon.endpoint import DaemonGone, Endpoint, Listening
from kernelwright.evaluator.daemon.messages import REPLY, Evaluate, receive, send
from kernelwright.evaluator.daemon.server import Daemon

PROBLEM = problem_from_source(
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(8, 8)]
""",
    "plus",
)
CANDIDATE = "import time, torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        {}\n"
RIGHT = Candidate(source=CANDIDATE.format("return x + 1"), backend="cpp")
QUICK = EvaluationConfig(device="cpu", measure=False, trials=1)
PATIENCE_S = 60.0


def candidate(body: str) -> Candidate:
    return Candidate(source=CANDIDATE.format(body), backend="cpp")


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that other processes bring about."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files of this test's own, so that it sees no other daemon."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path / f"kernelwright-{os.geteuid()}"
    stop_daemons()


def test_commands_share_a_daemon_which_leaves_nothing_behind(folder: Path, shared_cache: Path) -> None:
    stages: list[Stage] = []
    right = evaluate_warm(PROBLEM, RIGHT, QUICK, cache=shared_cache, on_stage=stages.append)
    (daemon,) = running_daemons()
    wrong = evaluate_warm(PROBLEM, candidate("return x - 1"), QUICK, cache=shared_cache)
    assert (right.status, wrong.status) == ("PASSED", "WRONG_VALUES")
    assert Stage.VERIFY in stages
    (after,) = running_daemons()
    assert (after.pid, after.evaluated, after.running) == (daemon.pid, 2, 0)
    assert after.pid != os.getpid()

    assert [one.pid for one in stop_daemons()] == [daemon.pid]
    until(lambda: not {"sock", "key", "log"} & {path.name.rpartition(".")[2] for path in folder.iterdir()})
    assert running_daemons() == []


def test_errors_are_those_of_an_evaluation_here(folder: Path, shared_cache: Path) -> None:
    config = QUICK.model_copy(update={"shapes": "large"})
    with pytest.raises(ConfigError, match="plus has no shapes named 'large'"):
        evaluate_warm(PROBLEM, RIGHT, config, cache=shared_cache)
    assert len(running_daemons()) == 1


def test_a_killed_daemon_costs_nobody_a_result(folder: Path, shared_cache: Path) -> None:
    killed: list[int] = []

    def kill(stage: Stage) -> None:
        if stage is Stage.VERIFY and not killed:
            killed.append(running_daemons()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    evaluation = evaluate_warm(PROBLEM, RIGHT, QUICK, cache=shared_cache, on_stage=kill)
    assert evaluation.status == "PASSED"
    assert killed
    assert running_daemons() == []
    assert evaluate_warm(PROBLEM, RIGHT, QUICK, cache=shared_cache).status == "PASSED"
    (daemon,) = running_daemons()
    assert daemon.pid != killed[0]


def test_a_caller_that_goes_away_cancels(folder: Path, shared_cache: Path) -> None:
    evaluate_warm(PROBLEM, RIGHT, QUICK, cache=shared_cache)
    connection = Endpoint.of(shared_cache).connect()
    send(connection, Evaluate(problem=PROBLEM, candidate=candidate("time.sleep(600)"), config=QUICK))
    while getattr(receive(connection, REPLY), "stage", None) is not Stage.VERIFY:
        pass
    assert running_daemons()[0].running == 1
    connection.close()
    until(lambda: running_daemons()[0].running == 0)
    assert evaluate_warm(PROBLEM, RIGHT, QUICK, cache=shared_cache).status == "PASSED"


def test_it_ends_when_idle(folder: Path, tmp_path: Path) -> None:
    endpoint = Endpoint.of(tmp_path)
    with Evaluator(cache=tmp_path) as evaluator:
        Daemon(evaluator, tmp_path, idle_s=0.2).serve(Listening(endpoint))
    assert Endpoint.all() == []
    with pytest.raises(DaemonGone):
        endpoint.connect()


def test_both_sides_prove_that_they_know_the_secret(folder: Path, tmp_path: Path) -> None:
    endpoint = Endpoint.of(tmp_path)
    listening = Listening(endpoint)
    accepted: list[object] = []
    for secret, is_met in ((b"guessed" * 5, False), (None, True)):
        key = folder / f"{endpoint.name}.key"
        known = key.read_bytes()
        key.write_bytes(secret or known)
        server = threading.Thread(target=lambda: accepted.append(listening.accept(PATIENCE_S)))
        server.start()
        if is_met:
            endpoint.connect().close()
        else:
            with pytest.raises(DaemonGone):
                endpoint.connect()
        server.join()
        key.write_bytes(known)
    listening.close()
    assert accepted[0] is None
    assert accepted[1] is not None


def test_another_compiler_has_another_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {Endpoint.of(tmp_path).name, Endpoint.of(tmp_path / "other").name}
    monkeypatch.setenv("CXX", "another-compiler")
    names.add(Endpoint.of(tmp_path).name)
    assert len(names) == 3


def test_without_a_sandbox_no_daemon_is_used(folder: Path, shared_cache: Path) -> None:
    config = QUICK.model_copy(update={"sandbox": SandboxTier.NONE})
    assert evaluate_warm(PROBLEM, RIGHT, config, cache=shared_cache).status == "PASSED"
    assert running_daemons() == []
