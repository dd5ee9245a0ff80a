"""The same pool on a real Ray cluster of several nodes on this machine, with processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, RayConnection
from kernelwright.agent.evaluation.evaluation_site import (
    CandidateQuarantined,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.evaluator import Cancelled, CancelToken, ConfigError, EvaluationConfig
from tests.agent.evaluation.cluster.standin_judge import JOURNAL, OTHER, StandInJudge
from tests.agent.evaluation.elsewhere import request, wait_for
from tests.agent.service.standin import source

pytest.importorskip("ray", reason="Ray is missing: install .[ray]")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    # Ray's own; it leaves files and sockets to its processes.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CONFIG = EvaluationConfig(measure=False)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv(JOURNAL, str(tmp_path / "journal"))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield nodes
    finally:
        nodes.shutdown()


def site(cluster: Any, folder: Path, **settings: Any) -> ClusterSite:
    connection = RayConnection(cluster.address, allows_open=True, judge=StandInJudge)
    return ClusterSite(connection, ClusterSettings(cache=folder, **settings), CONFIG, ["cpp"])


def evaluate(where: ClusterSite, asked: EvaluationRequest) -> str:
    return str(where.evaluate(asked, EvaluationHooks()).status)


def journal(folder: Path) -> list[str]:
    path = folder / "journal"
    return path.read_text().splitlines() if path.exists() else []


def judges() -> list[int]:
    """Process ids of the judges."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"ray::Judge" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_thousand_candidates_and_none_lost_or_twice(
    cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    cluster.add_node(num_cpus=1)
    statuses = ["PASSED", "WRONG_VALUES", "COMPILE_ERROR"]
    with site(cluster, tmp_path) as where:
        running = [
            aside.submit(evaluate, where, request(source(statuses[n % 3], 0.02, n))) for n in range(1000)
        ]
        assert [one.result(300) for one in running] == [statuses[n % 3] for n in range(1000)]
    begun = Counter(line for line in journal(tmp_path) if line.startswith("begun"))
    assert len(begun) == 1000
    assert set(begun.values()) == {1}


def test_a_killed_judge_and_a_killed_node_lose_nothing(
    cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    second = cluster.add_node(num_cpus=1)
    with site(cluster, tmp_path) as where:
        running = [aside.submit(evaluate, where, request(source("PASSED", 0.5, n))) for n in range(24)]
        wait_for(lambda: len(judges()) == 2 and len(journal(tmp_path)) > 4)
        os.kill(judges()[0], signal.SIGKILL)
        assert sum(one.result(120) == "PASSED" for one in running) == 24
        running = [aside.submit(evaluate, where, request(source("PASSED", 0.5, n))) for n in range(24, 48)]
        wait_for(lambda: len(judges()) == 2)
        cluster.remove_node(second, allow_graceful=False)
        assert sum(one.result(120) == "PASSED" for one in running) == 24
    ended = {line for line in journal(tmp_path) if line.startswith("ended")}
    assert len(ended) == 48


def test_a_builder_on_a_node_fills_the_store(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=3)
    building = """load_inline(name="one", cpp_sources='extern "C" int one() { return 1; }')"""
    asked = request(source().removesuffix(")") + f", made={building})")
    built = tmp_path / "builds" / "entries"
    with site(cluster, tmp_path, builders=1) as where:
        wait_for(lambda: evaluate(where, asked) == "PASSED" and bool(list(built.glob("*/*/built.so"))))


def test_poison_is_quarantined_and_its_neighbours_pass(
    cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    with site(cluster, tmp_path) as where:
        honest = [aside.submit(evaluate, where, request(source("PASSED", 0.1, n))) for n in range(20)]
        with pytest.raises(CandidateQuarantined):
            evaluate(where, request(source("DIE")))
        assert [one.result(120) for one in honest] == ["PASSED"] * 20


def test_a_node_with_another_evaluator_is_left_out(
    cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_node(num_cpus=1, env_vars={OTHER: "1"})
    with site(cluster, tmp_path) as where:
        running = [aside.submit(evaluate, where, request(source("PASSED", 0.2, n))) for n in range(20)]
        assert [one.result(120) for one in running] == ["PASSED"] * 20
        wait_for(lambda: "scores by other rules" in caplog.text)


def test_the_same_twice_and_a_cancelled_one(cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    stop, stages = CancelToken(), threading.Event()
    with site(cluster, tmp_path) as where:
        twins = [aside.submit(evaluate, where, request(source("PASSED", 0.3))) for _ in range(2)]
        assert [one.result(60) for one in twins] == ["PASSED", "PASSED"]
        hooks = EvaluationHooks(on_stage=lambda _: stages.set(), stop=stop)
        running = aside.submit(where.evaluate, request(source("PASSED", 100)), hooks)
        assert stages.wait(60)
        stop.set()
        with pytest.raises(Cancelled):
            running.result(60)


def test_leaving_a_cluster_cancels_and_begins_no_other(
    cluster: Any, tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    import ray

    with site(cluster, tmp_path) as where:
        running = [aside.submit(evaluate, where, request(source("PASSED", 100, n))) for n in range(4)]
        wait_for(lambda: len(journal(tmp_path)) == 2)
    for one in running:
        with pytest.raises(Cancelled):
            one.result(60)
    # Ray begins a cluster for whoever asks it something while it is not connected.
    judge = next(iter(where._pools.values()))._judges[0]
    for ask in (judge.connection.nodes, lambda: judge.connection.ask(judge.actor, "stage", "")):
        with pytest.raises(JudgeDied, match="not connected"):
            ask()
    assert not ray.is_initialized()


def test_a_cluster_without_tokens_is_refused_unless_told(cluster: Any, tmp_path: Path) -> None:
    connection = RayConnection(cluster.address, allows_open=False, judge=StandInJudge)
    with (
        pytest.raises(ConfigError, match=r"lets everybody in.*--insecure-cluster"),
        ClusterSite(connection, ClusterSettings(cache=tmp_path), CONFIG, ["cpp"]),
    ):
        pass


def test_a_cluster_that_asks_for_tokens_is_used(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    environment = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 32}
    begun = [tools / "ray", "start", "--head", "--port", "6391", "--num-cpus", "1"]
    begun += ["--include-dashboard", "false", "--disable-usage-stats"]
    asked = [tools / "kernelwright", "cluster", "check", "--address", "127.0.0.1:6391"]
    try:
        subprocess.run(begun, env=environment, check=True, capture_output=True, timeout=120)
        subprocess.run(asked, env=environment, check=True, capture_output=True, timeout=120)
        other = environment | {"RAY_AUTH_TOKEN": "1" * 32}
        refused = subprocess.run(asked, env=other, check=False, capture_output=True, timeout=120, text=True)
        assert refused.returncode == 3
        assert "if it asks for a token" in refused.stderr
    finally:
        subprocess.run([tools / "ray", "stop", "-f"], check=False, capture_output=True, timeout=120)


RUN = ["run", "23_swish", "09_softmax", "--provider", "replay", "-b", "cpp", "-s", "sample", "-n", "2"]
RUN += ["--shapes", "small", "--no-time", "--no-plain-build", "--no-confirm"]


def command(*words: str, cache: Path, workspace: Path) -> list[str]:
    places = ["--cache", str(cache), "--workspace", str(workspace)]
    return [str(Path(sys.executable).parent / "kernelwright"), *words, *places]


def attempts(cache: Path, workspace: Path) -> list[str]:
    """The attempts of a workspace as they are listed, without the ids of their run."""
    asked = command("attempts", "list", "--json", cache=cache, workspace=workspace)[:-4]
    asked += ["--workspace", str(workspace)]
    told = subprocess.run(asked, check=True, capture_output=True, timeout=60).stdout
    return sorted(
        json.dumps({name: value for name, value in one.items() if name not in ("attempt", "run")})
        for one in json.loads(told)
    )


def test_a_run_that_is_killed_and_resumed_has_the_log_of_a_local_one(
    tmp_path: Path, shared_cache: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    subprocess.run(
        command(*RUN, cache=shared_cache, workspace=here), check=True, capture_output=True, timeout=400
    )
    elsewhere = command(*RUN, "--engine", "ray", cache=shared_cache, workspace=there)
    with subprocess.Popen(elsewhere, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_for(
            lambda: any(b'"evaluation"' in one.read_bytes() for one in there.glob("runs/*/attempts.jsonl"))
        )
        killed.kill()
    wait_for(lambda: not judges())
    resumed = command("run", "--resume", "last", cache=shared_cache, workspace=there)
    subprocess.run(resumed, check=True, capture_output=True, timeout=400)
    assert attempts(shared_cache, there) == attempts(shared_cache, here)
    assert len(attempts(shared_cache, here)) >= 2


def test_every_node_is_checked(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from kernelwright.agent.cli.app import app

    cluster.add_node(num_cpus=1)
    asked = ["cluster", "check", "--address", cluster.address, "--insecure-cluster", "--json"]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert len(found) == 2
    assert {one["why"] for one in found} == {""}
    assert all(one["device"] and one["torch"] and one["sandbox"] for one in found)
