"""Feedback beyond its golden texts: faster kernels are named, and noise stays short."""

from __future__ import annotations

import pytest

from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts
from kernelwright.agent.strategies import Exemplar
from kernelwright.evaluator import BACKENDS, Status
from tests.agent.prompting.test_prompts import (
    CODE,
    EVALUATIONS,
    FOLDER,
    LOG,
    PROBLEM,
    WORK,
    agrees_with_golden,
    evaluation,
    prompts,
)


def test_a_faster_saved_kernel_is_named_and_a_slower_one_is_not() -> None:
    near = WORK.model_copy(update={"speed_of_light": 0.95})
    mine = EVALUATIONS["passed_near_the_limit"].model_copy(update={"plausibility": near})

    def told(speedup: float) -> str:
        saved = mine.model_copy(update={"speedup": speedup, "backend": "triton"})
        setting = Setting(fastest=lambda evaluation: saved if evaluation == mine else None)
        return TemplatePrompts(FOLDER, setting).feedback(mine, CODE)

    assert "Not the fastest yet: a saved triton kernel is 2.00 times as fast as yours" in told(2 * 0.8 / 0.18)
    assert "Little is left" not in told(9.0)
    assert "Not the fastest" not in told(4.0) and "Little is left" in told(4.0)


def test_feedback_is_short() -> None:
    noisy = EVALUATIONS["compile_error"].builds[0].model_copy(update={"log": LOG * 5000})
    loud = evaluation(Status.RUNTIME_ERROR, detail="x" * 100_000, output_tail="y" * 100_000, builds=(noisy,))
    failed = EVALUATIONS["compile_error"].model_copy(update={"builds": (noisy,)})
    assert all(len(prompts().feedback(one, CODE)) < 4000 for one in (loud, failed))


@pytest.mark.parametrize("name", ["passed_memory", "wrong_shape"])
def test_feedback_after_a_later_try_was_given_up(name: str) -> None:
    text = prompts().feedback(EVALUATIONS["passed_near_the_limit"], CODE, EVALUATIONS[name])
    agrees_with_golden(f"feedback/given_up_for_better_than_{name}", text)


def test_a_later_try_that_failed_after_it_was_timed_is_not_called_correct() -> None:
    raced = EVALUATIONS["passed_memory"].model_copy(update={"status": Status.RACE, "detail": "two threads"})
    text = prompts().feedback(EVALUATIONS["passed_near_the_limit"], CODE, raced)
    assert "it ended as RACE" in text and "two threads" in text
    assert "it was correct" not in text


def test_a_contended_speedup_is_marked_wherever_it_is_told() -> None:
    busy = EVALUATIONS["passed_memory"]
    assert busy.measurement is not None
    busy = busy.model_copy(update={"measurement": busy.measurement.model_copy(update={"contended": True})})
    better = EVALUATIONS["passed_near_the_limit"]
    assert "do not rely on it: contended" in prompts().feedback(busy, CODE)
    assert "do not rely on it: contended" in prompts().feedback(better, CODE, busy)
    assert "do not rely" not in prompts().feedback(better, CODE, EVALUATIONS["passed_memory"])
    shown = prompts().render_task(PROBLEM, BACKENDS["cuda"], [Exemplar(CODE, busy)])
    assert "do not rely on it: contended" in shown
