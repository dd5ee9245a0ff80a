"""Builders on a cluster of threads: what judges find built, and what becomes of builders that are lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.agent.evaluation.cluster import builder_pool
from kernelwright.agent.evaluation.cluster.builder_pool import BuilderPool
from kernelwright.agent.evaluation.cluster.cluster_records import JudgeOrder
from kernelwright.agent.evaluation.cluster.gpu_judge import NodeBuilder
from kernelwright.agent.evaluation.cluster.policy import BUILDS_AHEAD, FAILED_STARTS
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks
from kernelwright.evaluator import PackedBuild
from kernelwright.evaluator.building.build_cache import BuildCache
from tests.agent.evaluation.cluster.thread_cluster import CONFIG, ProcessEnds, ThreadCluster, site_of
from tests.agent.evaluation.elsewhere import request, wait_for
from tests.agent.service.standin import source

BUILDING = (
    """load_inline(name="one", cpp_sources='extern "C" int one() { return 1; }', no_implicit_headers=True)"""
)
SOURCE = source().removesuffix(")") + f", made={BUILDING})"
Built = Callable[[], tuple[PackedBuild, ...]]


class DyingBuilder(NodeBuilder):
    """Ends with its first build."""

    def build(self, source: str, architecture: str | None) -> bytes:
        raise ProcessEnds


class HeldBuilder(NodeBuilder):
    """Builds once it is let go."""

    go = threading.Event()

    def build(self, source: str, architecture: str | None) -> bytes:
        self.go.wait(60)
        return super().build(source, architecture)


@pytest.fixture(autouse=True)
def _hasty(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_pool, "LOOK_S", 0.05)


def _pool(cluster: ThreadCluster, folder: Path, count: int = 1) -> BuilderPool:
    order = JudgeOrder(config=CONFIG, kind="cpu", backends=("cpp",), cache=str(folder))
    return BuilderPool(cluster, order, count)  # type: ignore[arg-type]


def _build(pool: BuilderPool) -> tuple[PackedBuild, ...]:
    return pool.build(SOURCE, None, lambda: None)


def test_a_judge_finds_what_a_builder_built(tmp_path: Path) -> None:
    cluster, asked = ThreadCluster("a"), request(SOURCE)
    with site_of(cluster, tmp_path, builders=1) as site:
        wait_for(lambda: cluster.has_asked("builders", "is_ready"))
        assert site.evaluate(asked, EvaluationHooks()).status == "PASSED"
        assert cluster.has_asked("builders", "build")
    assert len(list((tmp_path / "builds" / "entries").glob("*/*/built.so"))) == 1


def test_builds_travel_between_folders(tmp_path: Path) -> None:
    with _pool(ThreadCluster(), tmp_path / "there") as pool:
        wait_for(lambda: bool(built := _build(pool)) and built[0].entry.ok)


def test_without_builders_judges_build(tmp_path: Path) -> None:
    with _pool(ThreadCluster(), tmp_path, count=0) as pool:
        assert _build(pool) == ()


def test_a_lost_builder_is_replaced_but_not_for_ever(tmp_path: Path) -> None:
    cluster = ThreadCluster()
    cluster.builder = DyingBuilder
    with _pool(cluster, tmp_path) as pool:
        wait_for(lambda: _build(pool) == () and len(cluster.actors) == 1 + FAILED_STARTS)
        wait_for(lambda: _build(pool) == () and not cluster.alive())
        assert len(cluster.actors) == 1 + FAILED_STARTS


def test_nobody_waits_behind_many(tmp_path: Path) -> None:
    cluster = ThreadCluster()
    cluster.builder = HeldBuilder
    HeldBuilder.go.clear()
    built: list[tuple[PackedBuild, ...]] = []
    with _pool(cluster, tmp_path) as pool:
        waiting = [threading.Thread(target=lambda: built.append(_build(pool))) for _ in range(BUILDS_AHEAD)]
        for thread in waiting:
            thread.start()
        wait_for(lambda: cluster.actors[0].calls.count("build") == BUILDS_AHEAD)
        assert _build(pool) == ()
        HeldBuilder.go.set()
        for thread in waiting:
            thread.join()
    assert [len(each) for each in built] == [1] * BUILDS_AHEAD
    assert BuildCache(tmp_path / "builds").has(built[0][0].key)


def test_builders_end_with_the_pool(tmp_path: Path) -> None:
    cluster = ThreadCluster()
    with _pool(cluster, tmp_path, count=3):
        assert cluster.alive() == ["builders"] * 3
    assert cluster.alive() == []
