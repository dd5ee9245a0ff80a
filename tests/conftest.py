"""What all tests share: threads that do not spin, one build cache, and which tests stay together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.scheduling import Neighbours, group_of, ranks
from tests.toolboxes import hand_over

# Before torch is loaded: workers share cores here, and threads that spin for each other are slow then.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Only tests of the daemon start one.
os.environ.setdefault("KERNELWRIGHT_NO_DAEMON", "1")
# No test asserts on a time, and a busy machine takes any.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Neighbours | None:  # Any: xdist's own
    """Tests of a file run in one process, candidates of the corpus with some of the same problem."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return Neighbours(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long is begun first, where tests run in several processes."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        begins = ranks(item.nodeid for item in items)
        items.sort(key=lambda item: begins[group_of(item.nodeid)])


@pytest.fixture(scope="session")
def kept_toolboxes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where toolboxes, which take a minute to make, are kept between test runs, by their content address.

    Without pytest's cache (`-p no:cacheprovider`) nothing is kept beyond this run.
    """
    cache = getattr(request.config, "cache", None)
    return Path(cache.mkdir("toolboxes")) if cache else tmp_path_factory.mktemp("toolboxes")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, kept_toolboxes: Path) -> Path:
    """A cache for all test processes of this session, as the users of one machine have it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    folder.mkdir(exist_ok=True)
    hand_over(kept_toolboxes, folder / "builds")
    return folder
