"""What all tests share: threads that do not spin, one build cache, and which tests stay together."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

# Before torch is loaded: workers share cores here, and threads that spin for each other are slow then.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_NEIGHBOURS = 25
"""Candidates of a problem that share a warm referee; the next may run elsewhere."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a file run in one process, candidates of the corpus with some of the same problem."""
    neighbours: Counter[str] = Counter()
    for item in items:
        group = item.path.stem
        if specimen := getattr(item, "callspec", None) and item.callspec.params.get("specimen"):
            group += f":{specimen.header['problem']}:{specimen.header['shapes']}"
            neighbours[group] += 1
            group += f":{neighbours[group] // _NEIGHBOURS}"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build cache for all test processes of this session, as the users of one machine have it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    folder.mkdir(exist_ok=True)
    return folder
