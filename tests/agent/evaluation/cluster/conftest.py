"""Pools that look often, for clusters of threads."""

from __future__ import annotations

import pytest

from kernelwright.agent.evaluation.cluster import judge_handle, judge_pool


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_pool, "LOOK_S", 0.05)
    monkeypatch.setattr(judge_handle, "LOOK_S", 0.05)
    monkeypatch.setattr(judge_pool, "STEAL_S", 0.1)
