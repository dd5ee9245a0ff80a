"""What an evaluation does where a device is full: idle referees go, then others, and only then is it told."""

from pathlib import Path
from typing import Any, cast

import pytest

from kernelwright.evaluator import Evaluator
from kernelwright.evaluator.driver.evaluation_job import EvaluationJob
from kernelwright.evaluator.schema.errors import DeviceFull

NOTHING = cast(Any, None)


class _Crowded(Evaluator):
    """Answers as told, one try after the other; each try leaves a referee idle if others do."""

    def __init__(self, cache: Path, *tries: bool, others: bool = False, device: str = "cuda:0") -> None:
        super().__init__(cache=cache)
        self.tries = list(tries)
        self.seen: list[bool] = []
        self._device = device
        self._others = others
        self._crowd.enter([device], warm=lambda one: False, stop=EvaluationJob(on_stage=print).stop)

    def _answer(self, problem: Any, candidate: Any, config: Any, device: str, job: EvaluationJob) -> Any:
        del problem, candidate, config, device
        job.timed_out = True
        self.seen.append(job.alone)
        if not self.tries.pop(0):
            raise DeviceFull("no room")
        return "referee", "answer"

    def tried(self) -> list[bool]:
        """Whether each try was said to be alone."""
        dismissed = iter([self._others, False])
        self._idle.dismiss = lambda device: next(dismissed, False)  # type: ignore[method-assign]
        job = EvaluationJob(on_stage=print)
        assert self._roomy_answer(NOTHING, NOTHING, NOTHING, self._device, job) == ("referee", "answer")
        return self.seen


def test_where_there_is_room_one_try_is_enough(tmp_path):
    assert _Crowded(tmp_path, True).tried() == [False]


def test_idle_referees_go_first(tmp_path):
    assert _Crowded(tmp_path, False, True, others=True).tried() == [False, False]


def test_then_it_is_judged_alone(tmp_path):
    assert _Crowded(tmp_path, False, False, True, others=True).tried() == [False, False, True]
    assert _Crowded(tmp_path, False, True).tried() == [False, True]


def test_what_does_not_fit_alone_does_not_fit(tmp_path):
    with pytest.raises(DeviceFull):
        _Crowded(tmp_path, False, False).tried()


def test_on_a_cpu_nobody_makes_room_who_is_not_there(tmp_path):
    alone = _Crowded(tmp_path, False, device="cpu")
    with pytest.raises(DeviceFull):
        alone.tried()
    assert alone.seen == [False]
