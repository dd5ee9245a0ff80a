"""Saved kernels evaluated again: several in flight, twice before anything bad is said, resumable."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive.reproduction import Reproduction, ReproductionOutcome, compare, rescore
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.runner.reevaluation import (
    Reevaluation,
    ReevaluationJob,
    ResultFile,
    is_not_refuted,
    rescoring,
)
from kernelwright.agent.workspace import Kernel, Provenance, Workspace
from kernelwright.evaluator import Evaluation, EvaluationConfig, MachineError, Status, source_sha

if TYPE_CHECKING:
    from tests.agent.conftest import Make

OUTCOME = ReproductionOutcome


class Machine:
    """Evaluates by the speedups that a kernel's mark is scripted with, one after the other."""

    def __init__(self, make: Make, **scripts: Iterable[float | Status | Exception]) -> None:
        self.make = make
        self.evaluated: list[str] = []
        self._scripts: dict[str, Iterator[float | Status | Exception]] = {
            mark: iter(answers) for mark, answers in scripts.items()
        }

    def __call__(self, asked: EvaluationRequest, _: EvaluationHooks) -> Evaluation:
        mark = re.findall(r"mark = '(.*)'", asked.candidate.source)[0]
        self.evaluated.append(mark)
        answer = next(self._scripts[mark], RuntimeError(f"{mark} is evaluated once too often"))
        if isinstance(answer, Exception):
            raise answer
        status = answer if isinstance(answer, Status) else Status.PASSED
        return self.make.evaluation(
            status,
            None if isinstance(answer, Status) else answer,
            problem=asked.problem,
            source=asked.candidate.source,
            config=asked.config,
            evaluator_sha=source_sha(),
        )


def keep(make: Make, folder: Path, mark: str, speedup: float = 2.0) -> Kernel:
    source = make.code(mark)
    evaluation = make.evaluation(source=source, speedup=speedup)
    return Workspace(folder).keep(source, evaluation, Provenance())


def again(
    make: Make,
    machine: Callable[..., Evaluation],
    kernels: list[Kernel],
    *,
    decide: Callable[..., Reproduction] = compare,
    results: Path | None = None,
    command: str = "verify",
    place: str = "here",
    workers: int = 2,
) -> dict[str, Reproduction]:
    found: dict[str, Reproduction] = {}

    def report(job: ReevaluationJob, result: Reproduction) -> None:
        found[job.kernel.source.split("'")[1]] = result

    Reevaluation(
        evaluate=machine,
        references={make.problem().sha: make.problem()},
        decide=decide,
        results=ResultFile(results, command, place),
        workers=workers,
        on_result=report,
    ).run([ReevaluationJob(kernel, kernel.score, kernel.score.config) for kernel in kernels])
    return found


def test_a_kernel_is_different_only_if_a_second_evaluation_agrees(make: Make, tmp_path: Path) -> None:
    kernels = [keep(make, tmp_path, mark) for mark in ("lucky", "lost", "wrong", "slow")]
    machine = Machine(
        make,
        lucky=[1.5, 2.0],
        lost=[1.5, 1.5],
        wrong=[Status.WRONG_VALUES],
        slow=[Status.TIMED_OUT, 2.0],
    )
    found = again(make, machine, kernels)
    assert {mark: result.outcome for mark, result in found.items()} == {
        "lucky": OUTCOME.REPRODUCED,
        "lost": OUTCOME.DIFFERENT,
        "wrong": OUTCOME.DIFFERENT,
        "slow": OUTCOME.REPRODUCED,
    }
    assert "the first time: 2.00× then, 1.50× now" in found["lucky"].why
    assert sorted(machine.evaluated) == ["lost", "lost", "lucky", "lucky", "slow", "slow", "wrong"]


def test_a_contended_measurement_is_repeated_and_never_believed(make: Make, tmp_path: Path) -> None:
    kernel = keep(make, tmp_path, "busy")
    disturbed = kernel.score.measurement.model_copy(update={"contended": True})  # type: ignore[union-attr]
    asked = []

    def machine(*_: object) -> Evaluation:
        asked.append(1)
        return kernel.score.model_copy(update={"measurement": disturbed})

    for decide in (compare, rescore):
        found = again(make, machine, [kernel], decide=decide)["busy"]
        assert found.outcome is OUTCOME.NOT_COMPARABLE
        assert "other work disturbed" in found.why
    assert len(asked) == 4


def test_several_kernels_are_in_flight(make: Make, tmp_path: Path) -> None:
    kernels = [keep(make, tmp_path, f"k{number}") for number in range(3)]
    together = threading.Barrier(3, timeout=30)
    machine = Machine(make, k0=[2.0], k1=[2.0], k2=[2.0])

    def meeting(*arguments: object) -> Evaluation:
        together.wait()
        return machine(*arguments)  # type: ignore[arg-type]

    found = again(make, meeting, kernels, workers=3)
    assert all(result.outcome is OUTCOME.REPRODUCED for result in found.values())


def test_an_interrupted_command_goes_on_where_it_was(make: Make, tmp_path: Path) -> None:
    kernels = [keep(make, tmp_path, mark) for mark in ("one", "two", "three")]
    file = tmp_path / "results.jsonl"
    machine = Machine(make, one=[2.0], two=[2.0], three=[KeyError("a fault of ours")])
    with pytest.raises(KeyError):
        again(make, machine, kernels, results=file, workers=1)
    with file.open("ab") as torn:
        torn.write('{"command": "verify", "machine": "é'.encode()[:-1])
    machine = Machine(make, three=[2.0])
    found = again(make, machine, kernels, results=file)
    assert machine.evaluated == ["three"]
    assert {result.outcome for result in found.values()} == {OUTCOME.REPRODUCED}
    # The new line does not go on in the torn one.
    assert again(make, Machine(make), kernels, results=file).keys() == {"one", "two", "three"}


def test_a_result_of_another_evaluator_or_other_settings_is_not_the_answer(
    make: Make, tmp_path: Path
) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    again(make, Machine(make, one=[2.0]), [kernel], results=file)
    text = file.read_text()
    file.write_text(text.replace(source_sha(), "0" * 16))
    machine = Machine(make, one=[2.0])
    again(make, machine, [kernel], results=file)
    file.write_text(text.replace('"trials": 7', '"trials": 5'))
    machine = Machine(make, one=[2.0])
    again(make, machine, [kernel], results=file)
    assert machine.evaluated == ["one"]


@pytest.mark.parametrize("other", [{"command": "rescore"}, {"place": "there"}])
def test_a_result_of_another_command_or_machine_is_not_the_answer(
    make: Make, tmp_path: Path, other: dict[str, str]
) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    again(make, Machine(make, one=[2.0]), [kernel], results=file, **other)
    machine = Machine(make, one=[2.0])
    again(make, machine, [kernel], results=file)
    assert machine.evaluated == ["one"]
    assert again(make, Machine(make), [kernel], results=file)["one"].outcome is OUTCOME.REPRODUCED


def test_a_result_for_another_score_is_not_the_answer_and_one_that_made_the_score_is(
    make: Make, tmp_path: Path
) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    made = again(make, Machine(make, one=[2.5, 2.5]), [kernel], results=file)["one"]
    assert made.after is not None
    for score, evaluated in ((made.after, []), (make.evaluation(source=kernel.source, speedup=9.0), ["one"])):
        saved = kernel.record.model_copy(update={"scores": (score,)})
        machine = Machine(make, one=[9.0])
        again(make, machine, [replace(kernel, record=saved)], results=file)
        assert machine.evaluated == evaluated


@pytest.mark.parametrize("status", [Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_what_a_busy_machine_may_have_caused_is_tried_again(
    make: Make, tmp_path: Path, status: Status
) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    found = again(make, Machine(make, one=[status, status]), [kernel], results=file)
    assert found["one"].outcome is OUTCOME.DIFFERENT
    assert again(make, Machine(make, one=[2.0]), [kernel], results=file)["one"].outcome is OUTCOME.REPRODUCED


def test_a_contended_result_in_a_file_is_not_done(make: Make, tmp_path: Path) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    disturbed = make.measurement(2.0).model_copy(update={"contended": True})
    busy = kernel.score.model_copy(update={"measurement": disturbed, "evaluator_sha": source_sha()})
    again(make, lambda *_: busy, [kernel], results=file)
    assert again(make, Machine(make, one=[2.0]), [kernel], results=file)["one"].outcome is OUTCOME.REPRODUCED


def test_any_text_in_a_result_survives_the_file(make: Make, tmp_path: Path) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    strange = make.evaluation(
        Status.RUNTIME_ERROR,
        source=kernel.source,
        detail="one\u2028two\x85three\x0cfour\ud800",
        evaluator_sha=source_sha(),
    )
    again(make, lambda *_: strange, [kernel], results=file)
    text = file.read_bytes().replace(b"\\u2028", "\u2028".encode())
    file.write_bytes(text)
    found = again(make, Machine(make), [kernel], results=file)["one"]
    assert found.outcome is OUTCOME.DIFFERENT and "\u2028" in found.why


def test_what_cannot_be_evaluated_here_is_tried_again_by_the_next_command(make: Make, tmp_path: Path) -> None:
    kernel, file = keep(make, tmp_path, "one"), tmp_path / "results.jsonl"
    found = again(make, Machine(make, one=[MachineError("no GPU")]), [kernel], results=file)
    assert (found["one"].outcome, found["one"].why) == (OUTCOME.NOT_COMPARABLE, "no GPU")
    assert is_not_refuted(found["one"])
    assert again(make, Machine(make, one=[2.0]), [kernel], results=file)["one"].outcome is OUTCOME.REPRODUCED


def test_rescoring_keeps_a_kernels_task_and_takes_every_other_setting(make: Make, tmp_path: Path) -> None:
    place, source = Workspace(tmp_path), make.code()
    for config in (EvaluationConfig(shapes="small", trials=3), EvaluationConfig(baselines=("eager",))):
        kernel = place.keep(source, make.evaluation(config=config), Provenance())
    jobs = rescoring([kernel], EvaluationConfig(trials=9), frozenset())
    assert {(job.config.shapes, job.config.trials, job.config.baselines) for job in jobs} == {
        ("small", 9, ("eager", "compile")),
        (None, 9, ("eager", "compile")),
    }
    named = rescoring([kernel], EvaluationConfig(shapes="tiny"), frozenset({"evaluation.shapes"}))
    assert [job.config.shapes for job in named] == ["tiny"]


def test_a_new_score_replaces_the_old_and_a_slower_one_is_said_twice(make: Make, tmp_path: Path) -> None:
    kernels = [keep(make, tmp_path, mark) for mark in ("fast", "slow", "unlucky", "broken")]
    machine = Machine(make, fast=[3.0], slow=[0.5, 0.5], unlucky=[0.5, 1.5], broken=[Status.RUNTIME_ERROR])
    found = again(make, machine, kernels, decide=rescore)
    assert {mark: result.outcome for mark, result in found.items()} == {
        "fast": OUTCOME.RESCORED,
        "slow": OUTCOME.SLOWER,
        "unlucky": OUTCOME.RESCORED,
        "broken": OUTCOME.FAILED,
    }
    assert {mark for mark, result in found.items() if not is_not_refuted(result)} == {"broken", "slow"}


def test_a_score_that_lacks_a_baseline_of_its_policy_is_no_score(make: Make, tmp_path: Path) -> None:
    kernel = keep(make, tmp_path, "one")
    eager = make.measurement(2.0).model_copy(update={"baselines": {"eager": make.measurement(2.0).candidate}})
    lacking = kernel.score.model_copy(update={"measurement": eager})
    found = rescore(kernel.id, kernel.score, lacking)
    assert found.outcome is OUTCOME.NOT_COMPARABLE
    assert found.why == "passed; its policy has a baseline that was not measured: compile"
    impossible = eager.model_copy(update={"impossible": {"compile": "it does not compile"}})
    standing = kernel.score.model_copy(update={"measurement": impossible})
    assert rescore(kernel.id, kernel.score, standing).outcome is OUTCOME.RESCORED
