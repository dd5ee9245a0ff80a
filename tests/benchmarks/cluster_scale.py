"""Measures throughput and overhead of a Ray cluster whose evaluations have a fixed cost, on this machine.

    python tests/benchmarks/cluster_scale.py --nodes 1 2 4 --candidates 200 --cost-s 0.5

A judge evaluates two at a time by sleeping, so the engine alone is measured. Needs `kernelwright[ray]`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite  # noqa: E402
from kernelwright.agent.evaluation.cluster.ray_connection import RayConnection  # noqa: E402
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest  # noqa: E402 - after the path
from kernelwright.evaluator import Candidate, EvaluationConfig, problem_from_source  # noqa: E402
from tests.agent.evaluation.cluster.standin_judge import StandInJudge  # noqa: E402
from tests.agent.service.standin import PROBLEM, source  # noqa: E402

TOPICS = 16
AT_ONCE = 2


def main() -> int:
    """Measure each number of nodes and print the table."""
    options = _options()
    os.environ["RAY_AUTH_MODE"] = "disabled"
    print(f"{'nodes':>5} {'evaluations/s':>14} {'of linear':>10} {'overhead ms, median':>20} {'p95':>6}")
    each = None
    for nodes in options.nodes:
        rate, overheads = _measure(nodes, options.candidates * nodes, options.cost_s)
        each = each or rate / nodes
        worst = statistics.quantiles(overheads, n=20)[-1]
        print(
            f"{nodes:>5} {rate:>14.2f} {rate / nodes / each:>10.1%} "
            f"{statistics.median(overheads) * 1e3:>20.1f} {worst * 1e3:>6.1f}",
            flush=True,
        )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--candidates", type=int, default=200, help="for each node")
    parser.add_argument("--cost-s", type=float, default=0.5, help="of one evaluation")
    return parser.parse_args()


def _measure(nodes: int, candidates: int, cost_s: float) -> tuple[float, list[float]]:
    """Evaluations a second, and the overhead in seconds of evaluations that wait for nobody."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        connection = RayConnection(cluster.address, allows_open=True, judge=StandInJudge)
        with tempfile.TemporaryDirectory() as folder:
            settings = ClusterSettings(cache=Path(folder))
            with ClusterSite(connection, settings, EvaluationConfig(measure=False), ["cpp"]) as site:
                return _rate(site, nodes, candidates, cost_s), _overheads(site, cost_s)
    finally:
        cluster.shutdown()


def _rate(site: ClusterSite, nodes: int, candidates: int, cost_s: float) -> float:
    def evaluate(number: int) -> None:
        site.evaluate(_request(number, cost_s), EvaluationHooks())

    with ThreadPoolExecutor(site.at_once) as threads:
        # All judges are there before the clock starts.
        list(threads.map(evaluate, range(-8 * AT_ONCE * nodes, 0)))
        begun = time.monotonic()
        list(threads.map(evaluate, range(candidates)))
        return candidates / (time.monotonic() - begun)


def _overheads(site: ClusterSite, cost_s: float) -> list[float]:
    found = []
    for number in range(40):
        begun = time.monotonic()
        site.evaluate(_request(-1000 - number, cost_s / 5), EvaluationHooks())
        found.append(time.monotonic() - begun - cost_s / 5)
    return found


def _request(number: int, cost_s: float) -> EvaluationRequest:
    problem = problem_from_source(PROBLEM.source + f"# {number % TOPICS}\n", PROBLEM.id)
    candidate = Candidate(source=source("PASSED", cost_s, number), backend="cpp")
    return EvaluationRequest(problem, candidate, EvaluationConfig(measure=False))


if __name__ == "__main__":
    sys.exit(main())
