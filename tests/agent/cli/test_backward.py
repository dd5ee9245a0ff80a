"""Gradients in what a model is told, in policies, and in what is compared with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import EvaluationConfig, Passes, find_backend

FOLDER = Path(__file__).parents[3] / "prompts"


@pytest.mark.parametrize("backend", ["cpp", "cuda", "triton", "tilelang", "cute"])
def test_the_system_message_asks_for_gradients_only_where_they_are_judged(backend: str) -> None:
    def said(passes: Passes) -> str:
        setting = Setting(config=EvaluationConfig(passes=passes))
        return TemplatePrompts(FOLDER, setting).render_system(find_backend(backend))

    asked, plain = said(Passes.FORWARD_BACKWARD), said(Passes.FORWARD)
    assert "The gradient is asked for too" in asked
    assert "speedup of `forward` and its gradients together" in asked
    assert "gradient" not in plain
    assert plain == TemplatePrompts(FOLDER).render_system(find_backend(backend))


def test_scores_with_gradients_are_no_scores_without() -> None:
    plain = ScorePolicy(shapes="small")
    graded = ScorePolicy(shapes="small", passes=Passes.FORWARD_BACKWARD)
    assert graded.differences(plain) == {"passes": "with gradients, not forward"}
    assert "with gradients" in graded.terms and "forward" not in plain.terms
