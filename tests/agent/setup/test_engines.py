"""Where candidates are evaluated: options that go together, and what is imported for whom."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib import util
from typing import Any

import pytest

from kernelwright.agent.evaluation.cluster import ray_connection
from kernelwright.agent.evaluation.local_site import LocalSite
from kernelwright.agent.setup.judge_setup import is_elsewhere, open_site, remote_site
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.evaluator import ConfigError, EvaluationConfig, MachineError

CONFIG = EvaluationConfig()
JUDGE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"engine": "ray", "judges": (JUDGE,)}, "name two places to evaluate; leave one out"),
        ({"address": "head:6379"}, "add --engine ray"),
        ({"cluster_judges": 4}, "add --engine ray"),
        ({"cluster_builders": 1}, "add --engine ray"),
        ({"insecure_cluster": True}, "add --engine ray"),
        ({"judge_device": "h200"}, "--judge URL names the judges"),
    ],
)
def test_options_of_two_places_do_not_go_together(given: Mapping[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        remote_site(RunSettings(**given), CONFIG, ["cpp"])


def test_without_ray_the_way_to_have_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = util.find_spec
    monkeypatch.setattr(
        "kernelwright.agent.evaluation.cluster.ray_connection.find_spec",
        lambda name: None if name == "ray" else find(name),
    )
    with pytest.raises(ConfigError, match=r"pip install 'kernelwright\[ray\]'"):
        remote_site(RunSettings(engine="ray"), CONFIG, ["cpp"])


def test_a_machine_evaluates_for_itself_and_says_what_limits_it() -> None:
    settings = RunSettings()
    assert not is_elsewhere(settings)
    assert is_elsewhere(RunSettings(engine="ray"))
    with open_site(settings, CONFIG, ["cpp"], cache=None, at_once=3) as site:
        assert isinstance(site, LocalSite)
        assert (site.at_once, site.capacity) == (3, "3 at once on this machine: as asked")


def test_nothing_of_a_cluster_is_imported_for_this_machine() -> None:
    code = """
import sys
from kernelwright.agent.cli.app import app
from kernelwright.agent.setup.judge_setup import open_site
from kernelwright.agent.setup.run_batch import run_batch
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.evaluator import EvaluationConfig
with open_site(RunSettings(), EvaluationConfig(), ["cpp"], cache=None):
    print([name for name in sys.modules if name == "ray" or "agent.evaluation.cluster" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_where_nobody_listens_is_refused_at_once(address: str) -> None:
    with pytest.raises(MachineError, match=r"no Ray cluster answers at .*--address names its head"):
        ray_connection._refuse_unreachable(address)
    ray_connection._refuse_unreachable("auto")
