"""Judges that end at the wrong moment, and evaluations that give up: nobody waits for ever or is blamed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation.cluster import cluster_site, judge_pool
from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSite
from kernelwright.agent.evaluation.cluster.ray_connection import Node
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks
from kernelwright.evaluator import Cancelled, CancelToken, MachineError
from tests.agent.evaluation.cluster.thread_cluster import Actor, ThreadCluster, ThreadJudge, site_of
from tests.agent.evaluation.elsewhere import request, wait_for
from tests.agent.service.standin import source

pytestmark = pytest.mark.usefixtures("hasty")


def evaluate(site: ClusterSite, text: str, stop: CancelToken | None = None) -> str:
    return str(site.evaluate(request(text), EvaluationHooks(stop=stop)).status)


def test_who_gives_up_while_it_waits_to_be_alone_leaves_its_judge_to_others(tmp_path: Path) -> None:
    cluster, stop = ThreadCluster("a", "b"), CancelToken()
    with ThreadPoolExecutor() as aside, site_of(cluster, tmp_path) as site:
        moved = aside.submit(evaluate, site, source("PASSED", 60, 1), stop)
        wait_for(lambda: cluster.has_asked("a", "evaluate"))
        blockers = [CancelToken(), CancelToken()]
        first = aside.submit(evaluate, site, source("PASSED", 60, 2), blockers[0])
        second = aside.submit(evaluate, site, source("PASSED", 60, 3), blockers[1])
        wait_for(lambda: cluster.has_asked("b", "evaluate"))
        cluster.kill("a")
        pool = site._pools["cpu"]
        wait_for(lambda: any(one.reserved_for for one in pool._judges))
        stop.set()
        for one in blockers:
            one.set()
        for running in (moved, first, second):
            with pytest.raises(Cancelled):
                running.result(30)
        wait_for(lambda: not any(one.reserved_for for one in pool._judges))
        assert aside.submit(evaluate, site, source()).result(30) == "PASSED"


def test_a_cluster_that_ends_takes_no_candidate_into_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_pool, "NOBODY_S", 1.0)
    cluster, stop = ThreadCluster("a", "b"), CancelToken()
    with ThreadPoolExecutor() as aside, site_of(cluster, tmp_path) as site:
        # Two on each judge, and then one of them idle.
        running = [aside.submit(evaluate, site, source("PASSED", 60, n), stop) for n in range(4)]
        wait_for(lambda: sum(one.calls.count("evaluate") for one in cluster.actors) == 4)
        stop.set()
        for one in running:
            with pytest.raises(Cancelled):
                one.result(30)
        before = [one.calls.count("evaluate") for one in cluster.actors]
        last = aside.submit(evaluate, site, source("PASSED", 60, 5))
        wait_for(lambda: [one.calls.count("evaluate") for one in cluster.actors] != before)
        for node in ("a", "b"):
            cluster.kill(node)
        with pytest.raises(MachineError, match="no judge of the cluster"):
            last.result(30)
    assert not list(tmp_path.glob("quarantine/*"))


def test_nodes_that_are_taken_back_again_and_again_quarantine_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_site, "MOST_PREEMPTIONS", 1)
    monkeypatch.setattr(cluster_site, "QUARANTINE_LOSSES", 1)
    cluster = ThreadCluster("a", "b")
    with ThreadPoolExecutor() as aside, site_of(cluster, tmp_path) as site:
        running = aside.submit(evaluate, site, source("PASSED", 60))
        for node in ("a", "b"):
            wait_for(lambda node=node: cluster.has_asked(node, "evaluate"))
            cluster.kill(node, preempted=True)
        with pytest.raises(MachineError, match="taken back"):
            running.result(30)


class Ghosts(ThreadCluster):
    """Lists a node that is gone."""

    def nodes(self) -> list[Node]:
        return [Node("0", "0", {"CPU": 1.0}), *super().nodes()]


def test_a_node_that_ends_before_its_judge_begins_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_pool, "START_S", 0.2)
    monkeypatch.setattr(judge_pool, "FIRST_JUDGE_S", 5.0)
    with site_of(Ghosts("a"), tmp_path, judges=1) as site:
        assert evaluate(site, source()) == "PASSED"


def test_a_node_on_which_no_judge_begins_does_not_keep_others_from_it(tmp_path: Path) -> None:
    class Broken(ThreadCluster):
        def start_judge(self, *arguments: Any, on: str = "", **options: Any) -> Actor:
            actor = super().start_judge(*arguments, on=on, **options)
            actor.is_dead = on == "a"
            return actor

    cluster = Broken("a", "b")
    with site_of(cluster, tmp_path) as site:
        assert evaluate(site, source()) == "PASSED"
        assert len(cluster.actors) == 2


def test_a_node_whose_facts_have_another_form_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Newer(ThreadJudge):
        def facts(self) -> bytes:
            return b'{"node": "a", "address": "a", "evaluator_sha": "1", "scoring_rules": 99, "later": 1}'

    cluster = ThreadCluster("a", "b", judges={"a": Newer})
    with site_of(cluster, tmp_path) as site:
        assert evaluate(site, source()) == "PASSED"
    assert "left out: node a (a) scores by other rules" in caplog.text


def test_facts_are_told_while_no_judge_is_there(tmp_path: Path) -> None:
    cluster = ThreadCluster("a")
    with site_of(cluster, tmp_path) as site:
        before = site.devices, site.torch, site.facts(), site.at_once
        site._pools["cpu"]._judges = []
        cluster._names.clear()
        assert (site.devices, site.torch, site.facts(), site.at_once) == before


@pytest.mark.parametrize(("meant", "found"), [("L40S", "L40S"), ("L4", "L4"), ("NVIDIA L40S", "L40S")])
def test_the_type_of_gpu_that_is_meant_is_chosen(tmp_path: Path, meant: str, found: str) -> None:
    class Mixed(ThreadCluster):
        def nodes(self) -> list[Node]:
            return [
                Node(name, name, {"GPU": count, f"accelerator_type:{name}": 1.0})
                for name, count in (("L4", 2.0), ("L40S", 3.0))
            ]

    order = site_of(Mixed(), tmp_path, device=meant)._order("cuda")
    assert (order.accelerator, order.most) == (found, {"L4": 2, "L40S": 3}[found])


def test_a_rebuild_that_fails_costs_no_judge(tmp_path: Path) -> None:
    class Failing(ThreadJudge):
        def open_site(self) -> Any:
            site = super().open_site()

            def build(_: object) -> None:
                raise MachineError("no compiler here")

            site.builds_plainly = build
            return site

    cluster = ThreadCluster("a", judges={"a": Failing})
    with site_of(cluster, tmp_path) as site:
        found = site.evaluate(request(source()), EvaluationHooks())
        built = site.builds_plainly(found)
        assert (built.ok, built.why) == (None, "no compiler here")
        assert cluster.alive() == ["a"]
