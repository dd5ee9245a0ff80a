"""Judges whose scores would not compare are refused, with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.service_facts import ServedDevice
from kernelwright.evaluator import (
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    Status,
    source_sha,
)
from tests.agent.evaluation.elsewhere import request, site
from tests.agent.service.standin import Running, StandIn, evaluation, source


def test_a_refused_handshake_names_the_address_and_the_way_out(tmp_path: Path) -> None:
    def refused(running: Running, **options: Any) -> str:
        with pytest.raises(ConfigError) as caught, site(running, **options):
            pass
        assert running.url in str(caught.value)
        return str(caught.value)

    with Running(tmp_path / "a", StandIn(), token="right-" * 4) as running:
        running.token = "wrong-" * 4
        assert "KERNELWRIGHT_JUDGE_TOKEN" in refused(running)
        assert "wrong" not in refused(running)
    with Running(tmp_path / "b", StandIn(), facts={"evaluator_sha": "feed" * 4}) as running:
        said = refused(running)
        assert "feedfeed" in said
        assert source_sha() in said
    with Running(tmp_path / "c", StandIn(), facts={"scoring_rules": 99}) as running:
        assert "rules 99" in refused(running)
    gpu = ServedDevice(kind="cuda", name="NVIDIA H200", at_once=4)
    with Running(tmp_path / "d", StandIn(), facts={"devices": (gpu,)}) as running:
        assert "has no cpu device that is meant (it has NVIDIA H200)" in refused(running)
    small = gpu.model_copy(update={"name": "NVIDIA H100"})
    with Running(tmp_path / "e", StandIn(), facts={"devices": (gpu, small)}) as running:
        assert "chooses between them" in refused(running)
    idle = gpu.model_copy(update={"at_once": 0})
    with Running(tmp_path / "f", StandIn(), facts={"devices": (idle,)}) as running:
        assert "does not describe itself as an evaluator does" in refused(running)


def test_settings_that_are_an_operators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="operator decides sandbox, threads"):
        site("http://127.0.0.1:1", config=EvaluationConfig(sandbox="none", threads=3))


def test_devices_are_never_mixed_unless_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = ServedDevice(kind="cpu", name="Another CPU", at_once=1, threads=2)
    judge, stranger = StandIn(), StandIn()
    with (
        Running(tmp_path / "a", judge) as ours,
        Running(tmp_path / "b", stranger, facts={"devices": (other,)}) as theirs,
    ):
        with pytest.raises(ConfigError, match=r"not comparable.*--judge-device"), site(ours, theirs):
            pass
        with site(ours, theirs, device="another") as judges:
            assert judges.devices == {"cpu": "Another CPU"}
            judges.evaluate(request(source()), EvaluationHooks())
    assert (len(judge.begun), len(stranger.begun)) == (0, 1)
    assert f"left out: {ours.url}" in caplog.text


def test_results_of_other_devices_or_of_other_contents_are_no_scores(tmp_path: Path, make: Any) -> None:
    def judge(asked: EvaluationRequest, _: EvaluationHooks) -> Evaluation:
        text = asked.candidate.source
        device = make.environment("Test CPU" if "0" in text else "Another CPU")
        found = evaluation(asked.problem, asked.candidate, asked.config, Status.PASSED, environment=device)
        return found.model_copy(update={"evaluator_sha": "0" * 16}) if "9" in text else found

    with Running(tmp_path, judge) as running, site(running) as judges:
        assert judges.evaluate(request("0"), EvaluationHooks()).status is Status.PASSED
        with pytest.raises(EvaluatorError, match="on Another CPU, others on Test CPU"):
            judges.evaluate(request("1"), EvaluationHooks())
        with pytest.raises(EvaluatorError, match="something else"):
            judges.evaluate(request("9"), EvaluationHooks())
