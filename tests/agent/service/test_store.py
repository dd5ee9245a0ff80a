"""Accepted evaluations outlive the service, and memory does not grow with it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.evaluation.evaluation_site import EvaluationFailure
from kernelwright.agent.evaluation.service_client import EvaluationFailed
from kernelwright.agent.evaluation.service_facts import facts_of
from kernelwright.agent.prompting.hardware_facts import this_cpu
from kernelwright.agent.service.evaluation_queue import EvaluationQueue, EvaluationView, RunningEvaluation
from kernelwright.agent.service.metrics import DrainRate
from kernelwright.agent.service.policy import LONGEST_RETRY_S, STARTS
from kernelwright.agent.service.store import EvaluationState, Store, StoreError
from kernelwright.agent.service.submission import (
    AskedLimits,
    AskedPolicy,
    Content,
    ProblemRegistry,
    Submission,
)
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    EvaluationConfig,
    Limits,
    MachineError,
    Status,
    source_sha,
)
from tests.agent.service.standin import PROBLEM, Running, StandIn, evaluation, source


def content(candidate: str = "x", **config: Any) -> Content:
    return Content(
        problem=PROBLEM,
        candidate=Candidate(source=candidate, backend="cpp"),
        config=EvaluationConfig.model_validate(config),
    )


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Store, EvaluationQueue]]:
    """A store, which ends without a word to its queue, as a kill would end it."""
    with closing(Store(folder)) as store:
        yield store, EvaluationQueue(store, evaluator="test", workers={"cpu": 1}, places=100)


def take(desk: EvaluationQueue) -> RunningEvaluation:
    work = desk.take("cpu")
    assert work is not None
    return work


def passed(work: RunningEvaluation) -> Evaluation:
    return evaluation(PROBLEM, work.content.candidate, work.content.config, Status.PASSED)


def told_speedup(store: Store, work: RunningEvaluation) -> float | None:
    """Of the evaluation that is told once this one has ended."""
    ended = store.find(work.id)
    assert ended is not None
    return Evaluation.model_validate_json(ended.verdict or "").speedup


def states(desk: EvaluationQueue, *ids: str) -> list[str]:
    return [standing.entry.state.value for one in ids if (standing := desk.look(one))]


def test_a_client_may_lower_every_limit() -> None:
    assert set(AskedLimits.model_fields) == set(Limits.model_fields)


def test_a_verdict_is_of_its_evaluator_and_hardware() -> None:
    judge = facts_of(EvaluationConfig(), ["cpu", "cpu"]).label
    assert source_sha() in judge and judge.endswith(f", {this_cpu().name}")
    assert content().id(judge) != content().id(f"{judge} of another kind")


def test_a_restart_goes_on_with_what_waited_and_what_ran(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, desk):
        names = ("first", "second", "done", "gone")
        first, second, done, gone = (desk.accept(content(name)).entry.id for name in names)
        desk.cancel(gone)
        assert take(desk).id == first
    with opened(tmp_path) as (_, desk):
        assert states(desk, first, second, done, gone) == ["running", "queued", "queued", "cancelled"]
        taken = [take(desk) for _ in range(3)]
        assert [work.id for work in taken] == [first, second, done]
        assert taken[0].content == content("first")
        for work in taken:
            desk.finish(work, passed(work))
    with opened(tmp_path) as (_, desk):
        assert desk.queued == 0
        assert states(desk, first, second, done) == ["finished"] * 3
        assert not desk.accept(content("done")).entry.is_live


def test_what_ends_the_service_again_and_again_is_given_up(tmp_path: Path) -> None:
    poison = ""
    for _ in range(STARTS):
        with opened(tmp_path) as (_, desk):
            poison = desk.accept(content("poison")).entry.id
            take(desk)
    with opened(tmp_path) as (_, desk):
        standing = desk.look(poison)
        assert standing is not None
        assert (standing.entry.state, desk.queued) == (EvaluationState.FAILED, 0)
        assert "3 times" in (standing.entry.failure or "")
        assert desk.accept(content("poison")).entry.state is EvaluationState.QUEUED


def test_what_was_put_back_does_not_count_as_begun(tmp_path: Path) -> None:
    for _ in range(STARTS + 1):
        with opened(tmp_path) as (store, desk):
            desk.accept(content())
            work = take(desk)
            desk.drain()
            desk.put_back(work)
            assert desk.look(work.id) == EvaluationView(store.find(work.id), closing=True)


def test_a_state_folder_has_one_service_and_no_newer_one(tmp_path: Path) -> None:
    with opened(tmp_path / "state"), pytest.raises(MachineError, match="in use by another service"):
        Store(tmp_path / "state")
    for version, words in (
        (99, "newer"),
        (1, r"older kernelwright.*remove .*state, or choose another --state"),
    ):
        with closing(sqlite3.connect(tmp_path / "state" / "evaluations.sqlite")) as file:
            file.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(MachineError, match=words):
            Store(tmp_path / "state")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "evaluations.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(MachineError, match=r"evaluations\.sqlite"):
        Store(tmp_path / "broken")
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="file"):
        Store(tmp_path / "file")


def test_a_disk_that_takes_nothing_accepts_nothing_and_loses_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, desk):
        work_id = desk.accept(content("before")).entry.id
        work = take(desk)
        # Another writer holds the file: every change fails as it does on a full disk.
        store._file.execute("PRAGMA busy_timeout = 0")
        with closing(sqlite3.connect(tmp_path / "evaluations.sqlite", isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError):
                desk.accept(content("after"))
            ending = threading.Thread(target=desk.finish, args=(work, passed(work)))
            ending.start()
            ending.join(0.2)
            assert states(desk, work_id) == ["running"]
            blocker.execute("ROLLBACK")
        assert desk.accept(content("after")).entry.state is EvaluationState.QUEUED
        ending.join(30)
        assert states(desk, work_id) == ["finished"]


def test_old_evaluations_are_forgotten_and_waiting_ones_are_not(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, desk):
        ended, waits = (desk.accept(content(name)).entry.id for name in ("ended", "waits"))
        desk.cancel(ended)
        assert desk.prune(older_than_s=3600) == 0
        time.sleep(0.01)
        assert desk.prune(older_than_s=0) == 1
        assert (desk.look(ended), states(desk, waits)) == (None, ["queued"])
        assert take(desk).content == content("waits")


def timed(status: Status, speedup: float | None) -> Evaluation:
    made = evaluation(PROBLEM, Candidate(source="x", backend="cpp"), EvaluationConfig(), status)
    return made.model_copy(update={"speedup": speedup})


def test_asking_again_tells_the_median_and_all_results_and_ends_after_five(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, desk):
        told = []
        for speedup in (1.0, 9.0, None, 1.2, 1.1, 7.0):
            view = desk.accept(content(), fresh=True)
            if not view.entry.is_live:
                break
            work = take(desk)
            desk.finish(work, timed(Status.PASSED if speedup else Status.TIMED_OUT, speedup))
            told.append(told_speedup(store, work))
        assert told == [1.0, 1.0, 1.0, 1.0, 1.1]
        assert [one.speedup for one in view.entry.results] == [1.0, 9.0, None, 1.2, 1.1]
        assert [one.round for one in view.entry.results] == [1, 2, 3, 4, 5]
        assert desk.prune(older_than_s=-1) == 1
        assert desk.accept(content()).entry.results == ()


def test_results_outlive_a_failure_and_a_cancellation_of_asking_again(tmp_path: Path) -> None:
    result, failure = timed(Status.PASSED, 2.0), EvaluationFailure(kind="machine", message="no compiler")
    with opened(tmp_path) as (store, desk):
        for outcome in (result, failure, None, result):
            name = desk.accept(content(), fresh=True).entry.id
            work = take(desk)
            if outcome is not None:
                desk.finish(work, outcome)
            else:
                desk.cancel(name)
            kept = store.find(name)
            assert kept is not None and kept.state is EvaluationState.FINISHED and kept.verdict
        assert [one.round for one in kept.results] == [1, 4]


def test_contents_of_one_policy_are_one_content() -> None:
    registry = ProblemRegistry([PROBLEM], operator=EvaluationConfig(), kinds={"cpu"})

    def asked(**config: Any) -> Content:
        policy = AskedPolicy.model_validate(config)
        return registry.resolve(Submission(problem=PROBLEM.id, candidate="x", backend="cpp", config=policy))

    same: list[dict[str, Any]] = [
        {},
        {"limits": AskedLimits(total_s=100.0)},
        {"baselines": ("compile", "eager")},
        {"baselines": ("eager", "compile")},
        {"sanitize": "off"},
    ]
    assert len({asked(**config).id("e") for config in same}) == 1
    others: list[dict[str, Any]] = [{}, {"trials": 3}, {"baselines": ("eager",)}, {"math": "tf32"}]
    assert len({asked(**config).id("e") for config in others}) == len(others)
    assert [asked(**config).is_limited for config in same] == [False, True, False, False, False]


def test_disturbed_results_and_failures_under_low_limits_are_told_last_and_do_not_count(
    tmp_path: Path, make: Any
) -> None:
    disturbed = make.measurement(9.0).model_copy(update={"contended": True})
    busy = timed(Status.PASSED, 9.0).model_copy(update={"measurement": disturbed})
    low = content().model_copy(update={"is_limited": True})
    told = []
    results = [(content(), busy)] * 6 + [(low, timed(Status.TIMED_OUT, None))]
    results += [(content(), timed(Status.PASSED, 1.0 + n)) for n in range(6)]
    with opened(tmp_path) as (store, desk):
        for asked, result in results:
            if not desk.accept(asked, fresh=True).entry.is_live:
                break
            work = take(desk)
            desk.finish(work, result)
            told.append(told_speedup(store, work))
    assert told == [*[9.0] * 6, None, 1.0, 1.0, 2.0, 2.0, 3.0]


def test_callers_turned_away_are_sent_away_longer_each_until_a_place_is_free() -> None:
    pace = DrainRate(workers=2)
    assert pace.retry_after_s() == 5
    pace.ended(10.0)
    assert [pace.retry_after_s() for _ in range(3)] == [5, 10, 15]
    pace.ended(10.0)
    assert pace.retry_after_s() == 5
    assert max(pace.retry_after_s() for _ in range(1000)) == LONGEST_RETRY_S


def test_a_service_serves_what_an_earlier_one_judged_without_judging_again(tmp_path: Path) -> None:
    candidates = [Candidate(source=source(number=number), backend="cpp") for number in range(3)]
    broken = Candidate(source=source("MACHINE"), backend="cpp")
    first, second = StandIn(), StandIn()
    with Running(tmp_path, first) as running:
        verdicts = [running.client().evaluate(PROBLEM, candidate) for candidate in candidates]
        with pytest.raises(EvaluationFailed, match="no compiler here"):
            running.client().evaluate(PROBLEM, broken)
    with Running(tmp_path, second) as running:
        assert [running.client().evaluate(PROBLEM, candidate) for candidate in candidates] == verdicts
        with pytest.raises(EvaluationFailed):
            running.client().evaluate(PROBLEM, broken)
    assert second.begun == [broken.source]


def test_a_standing_says_how_many_come_first(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, desk):
        ids = [desk.accept(content(str(number))).entry.id for number in range(3)]
        found = [desk.look(one) for one in ids]
    assert [standing.ahead for standing in found if isinstance(standing, EvaluationView)] == [0, 1, 2]
