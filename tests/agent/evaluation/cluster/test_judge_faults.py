"""Judges that end at the wrong moment, and evaluations that give up: nobody waits for ever, nobody is blamed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation import EvaluationHooks
from kernelwright.agent.evaluation.cluster import cluster_site, judge_pool
from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite
from kernelwright.agent.evaluation.cluster.ray_connection import Node
from kernelwright.evaluator import Cancelled, CancelToken, EvaluationConfig, MachineError
from tests.agent.evaluation.cluster.thread_cluster import Actor, ThreadCluster, ThreadJudge
from tests.agent.evaluation.elsewhere import request, wait_for
from tests.agent.service.standin import source

CONFIG = EvaluationConfig(measure=False)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_pool, "LOOK_S", 0.05)


def site_of(cluster: Any, folder: Path, **settings: Any) -> ClusterSite:
    return ClusterSite(cluster, ClusterSettings(cache=folder, **settings), CONFIG, ["cpp"])


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
        pool = site._pools["cpp" if "cpp" in site._pools else "cpu"]
        wait_for(lambda: any(one.reserved_for for one in pool._judges))
        stop.set()
        for one in blockers:
            one.set()
        for running in (moved, first, second):
            with pytest.raises(Cancelled):
                running.result(30)
        wait_for(lambda: not any(one.reserved_for for one in pool._judges))
        assert aside.submit(evaluate, site, source()).result(30) == "PASSED"
