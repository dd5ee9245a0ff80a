"""A cluster's judges: who gets an evaluation, who is left out, and what becomes of a lost one's work."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kernelwright.agent.evaluation.cluster import judge_handle, judge_pool
from kernelwright.agent.evaluation.cluster.cluster_records import NoiseReading
from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite
from kernelwright.agent.evaluation.evaluation_site import (
    CandidateQuarantined,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.evaluator import (
    Cancelled,
    CancelToken,
    ConfigError,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    problem_from_source,
)
from tests.agent.evaluation.cluster.thread_cluster import CONFIG, ThreadCluster, ThreadJudge, site_of
from tests.agent.evaluation.elsewhere import request, wait_for
from tests.agent.service.standin import PROBLEM, source

pytestmark = pytest.mark.usefixtures("hasty")


def evaluate(site: ClusterSite, asked: EvaluationRequest) -> str:
    return str(site.evaluate(asked, EvaluationHooks()).status)


def test_results_are_those_of_the_evaluator(tmp_path: Path) -> None:
    with site_of(ThreadCluster("a"), tmp_path) as site:
        found = site.evaluate(request(source("WRONG_VALUES")), EvaluationHooks())
        assert (found.status, found.problem) == ("WRONG_VALUES", PROBLEM.id)
        with pytest.raises(MachineError, match="no compiler here"):
            evaluate(site, request(source("MACHINE")))
        with pytest.raises(EvaluatorError, match="ZeroDivisionError: a bug"):
            evaluate(site, request(source("CRASH")))
        assert site.builds_plainly(found).ok


def test_stages_are_told_and_a_stop_reaches_the_judge(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    stages: list[str] = []
    stop = CancelToken()
    with site_of(ThreadCluster("a"), tmp_path) as site:
        hooks = EvaluationHooks(on_stage=stages.append, stop=stop)
        running = aside.submit(site.evaluate, request(source("PASSED", 60)), hooks)
        wait_for(lambda: stages == ["verify"])
        stop.set()
        with pytest.raises(Cancelled):
            running.result(30)
        assert evaluate(site, request(source("PASSED"))) == "PASSED"


def test_leaving_the_site_cancels_what_is_under_way(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path) as site:
        running = aside.submit(evaluate, site, request(source("PASSED", 60)))
        wait_for(lambda: "evaluate" in cluster.actors[0].calls)
    with pytest.raises(Cancelled):
        running.result(30)
    assert cluster.has_quit


def test_a_lost_node_is_no_score_and_its_work_goes_elsewhere(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    cluster = ThreadCluster("a", "b")
    with site_of(cluster, tmp_path) as site:
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.3, n))) for n in range(8)]
        wait_for(lambda: sum("evaluate" in actor.calls for actor in cluster.actors) == 2)
        cluster.kill("a")
        assert [one.result(60) for one in running] == ["PASSED"] * 8
        assert "a" not in cluster.alive()


def test_a_node_that_is_taken_back_blames_no_candidate(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path) as site:
        running = aside.submit(evaluate, site, request(source("PASSED", 0.3)))
        for old, new in (("a", "b"), ("b", "c"), ("c", "d")):
            wait_for(
                lambda old=old: any(one.node == old and "evaluate" in one.calls for one in cluster.actors)
            )
            cluster.add(new)
            cluster.kill(old, preempted=True)
        assert running.result(60) == "PASSED"


def test_who_takes_judges_down_is_quarantined_and_others_are_not(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    poison = request(source("DIE"))
    with site_of(ThreadCluster("a", "b"), tmp_path) as site:
        honest = [aside.submit(evaluate, site, request(source("PASSED", 0.05, n))) for n in range(40)]
        with pytest.raises(CandidateQuarantined, match="the process ended"):
            evaluate(site, poison)
        assert [one.result(60) for one in honest] == ["PASSED"] * 40
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path) as site:
        # Also another process refuses it, until its file is removed.
        with pytest.raises(CandidateQuarantined, match="remove") as refusal:
            evaluate(site, poison)
        assert cluster.alive() == ["a"]
        held = next((tmp_path / "quarantine").iterdir())
        assert str(held) in str(refusal.value)
        assert source("DIE") in held.read_text()
        held.unlink()
        with pytest.raises(CandidateQuarantined, match="was lost"):
            evaluate(site, poison)


def test_a_problem_stays_with_a_judge_and_others_take_what_waits(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    cluster = ThreadCluster("a", "b")

    def evaluations() -> list[int]:
        return [actor.calls.count("evaluate") for actor in cluster.actors]

    with site_of(cluster, tmp_path) as site:
        wait_for(lambda: aside.submit(evaluate, site, request(source())).result() == "PASSED")
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.6, n))) for n in range(4)]
        wait_for(lambda: sorted(evaluations())[:1] and min(evaluations()) >= 1 and len(evaluations()) == 2)
        assert [one.result(60) for one in running] == ["PASSED"] * 4
        before = evaluations()
        for number in range(5):
            evaluate(site, request(source("PASSED", 0, number)))
        assert sorted(now - then for now, then in zip(evaluations(), before, strict=True)) == [0, 5]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"evaluator_sha": "0" * 12}, "scores by other rules"),
        ({"trouble": ("no sandbox works here",)}, "cannot evaluate: no sandbox works here"),
        ({"torch": "2.6.0"}, "scores of different machines are not comparable"),
    ],
)
def test_nodes_that_do_not_match_are_left_out(
    tmp_path: Path,
    aside: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    why: str,
) -> None:
    class Other(ThreadJudge):
        pass

    Other.changes = MappingProxyType(changes)
    # The first node that answers says what the others must be like.
    cluster = ThreadCluster("a")
    cluster._judges["b"] = Other
    with site_of(cluster, tmp_path, judges=2) as site:
        cluster.add("b")
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.15, n))) for n in range(8)]
        assert [one.result(60) for one in running] == ["PASSED"] * 8
        wait_for(lambda: why in caplog.text)
        assert all("evaluate" not in one.calls for one in cluster.actors if one.node == "b")


def test_a_cluster_without_a_fitting_node_is_refused(tmp_path: Path) -> None:
    class Other(ThreadJudge):
        changes = MappingProxyType({"evaluator_sha": "0" * 12})

    cluster = ThreadCluster("a", judges={"a": Other})
    with pytest.raises(ConfigError, match="scores by other rules"), site_of(cluster, tmp_path):
        pass
    assert cluster.alive() == []


def test_a_device_by_number_and_missing_devices_are_refused(tmp_path: Path) -> None:
    cluster: Any = ThreadCluster("a")
    with pytest.raises(ConfigError, match="chooses the device; leave 'cuda:1' out"):
        ClusterSite(cluster, ClusterSettings(), EvaluationConfig(device="cuda:1"))
    with (
        pytest.raises(ConfigError, match=r"no cuda device now.*--cluster-judges"),
        ClusterSite(cluster, ClusterSettings(cache=tmp_path), CONFIG, ["cuda"]),
    ):
        pass


def test_judges_follow_the_queue(
    tmp_path: Path, aside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_pool, "IDLE_S", 0.3)
    cluster = ThreadCluster("a", "b", "c")
    with site_of(cluster, tmp_path) as site:
        assert site.at_once == 12
        assert len(cluster.alive()) == 1
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.3, n))) for n in range(12)]
        wait_for(lambda: len(cluster.alive()) == 3)
        assert [one.result(60) for one in running] == ["PASSED"] * 12
        wait_for(lambda: len(cluster.alive()) == 1)


def test_a_node_that_comes_later_is_used(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path, judges=2) as site:
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.3, n))) for n in range(8)]
        wait_for(lambda: "" in cluster.alive())  # asked for, and no node has it: an autoscaler's signal
        cluster.kill("a")
        cluster.add("b")
        cluster.add("c")
        assert [one.result(60) for one in running] == ["PASSED"] * 8


def test_a_noisy_node_is_drained_until_it_is_quiet(
    tmp_path: Path, aside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_pool, "NOISE_RETRY_S", 0.3)
    quiet = threading.Event()

    class Noisy(ThreadJudge):
        def noise(self) -> bytes:
            return NoiseReading(ratio=1.0 if quiet.is_set() else 9.0).model_dump_json().encode()

    cluster = ThreadCluster("a", "b", judges={"b": Noisy})
    with site_of(cluster, tmp_path, checks_noise=True) as site:
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.1, n))) for n in range(8)]
        assert [one.result(60) for one in running] == ["PASSED"] * 8
        noisy = next(actor for actor in cluster.actors if actor.node == "b")
        wait_for(lambda: noisy.calls.count("noise") >= 3)
        assert "evaluate" not in noisy.calls
        quiet.set()
        running = [aside.submit(evaluate, site, request(source("PASSED", 0.1, n))) for n in range(9, 25)]
        assert [one.result(60) for one in running] == ["PASSED"] * 16
        assert "evaluate" in noisy.calls


def test_a_hung_judge_is_ended_and_its_work_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_handle, "DEADLINE_FACTOR", 0.0003)
    with (
        site_of(ThreadCluster("a", "b"), tmp_path) as site,
        pytest.raises(CandidateQuarantined, match="has not answered within 0 s"),
    ):
        evaluate(site, request(source("HANG")))


def test_answers_about_something_else_are_no_score(tmp_path: Path) -> None:
    class Confused(ThreadJudge):
        def open_site(self) -> Any:
            site = super().open_site()
            real = site.evaluate

            def evaluate(asked: EvaluationRequest, hooks: EvaluationHooks) -> Any:
                other = problem_from_source(PROBLEM.source + "\n", "level1/other")
                return real(replace(asked, problem=other), hooks)

            site.evaluate = evaluate
            return site

    with (
        site_of(ThreadCluster("a", judges={"a": Confused}), tmp_path) as site,
        pytest.raises(EvaluatorError, match="answers about something else"),
    ):
        evaluate(site, request(source()))


def test_without_any_judge_an_evaluation_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_pool, "NOBODY_S", 0.5)
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path) as site:
        cluster.kill("a")
        time.sleep(0.1)
        with pytest.raises(MachineError, match="no judge of the cluster"):
            evaluate(site, request(source("PASSED", 0.1)))
