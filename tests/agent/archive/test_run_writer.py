"""Runs written and read back, resumed and folded; and a writer killed in the middle of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.archive import Archive, ArchiveError, UnknownRun, begin_run, resume_run
from kernelwright.agent.records.attempt_log import (
    AssignmentDone,
    Attempt,
    CompletionRecorded,
    EvaluationRecorded,
    LogRepaired,
    RunResumed,
    RunStarted,
    TextRef,
)
from kernelwright.evaluator import Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

ROOT = Path(__file__).parents[3]


def test_a_run_can_be_told_from_its_folder_alone(tmp_path: Path, make: Make) -> None:
    problems = (make.problem("level1/01_add"), make.problem("level2/02_mul"))
    archive = Archive(tmp_path)
    begin_run(archive, '{"a": 1}', problems, settings="x" * 3000).close()
    (run,) = archive.runs()
    started = archive.started(run)
    assert archive.text(run, started.plan) == '{"a": 1}'
    assert archive.text(run, started.settings) == "x" * 3000
    assert archive.problems(run) == {problem.id: problem for problem in problems}
    assert {"python", "pydantic"} <= started.versions.keys()


def test_an_attempt_comes_back_whole(tmp_path: Path, make: Make) -> None:
    log = make.log(tmp_path)
    key = make.key(log.run, turn=2)
    reply = make.reply() + "x" * 5000
    recorded = log.record_completion(key, make.answer(key, reply))
    evaluation = make.evaluation()
    judged = log.record_evaluation(recorded, evaluation)
    log.close()
    (attempt,) = log.archive.attempts()
    assert attempt == judged
    assert attempt.id == key.attempt
    assert isinstance(attempt.completion.reply, TextRef)
    assert log.archive.reply(attempt.completion) == reply
    assert log.archive.code(attempt) == make.code()
    assert log.archive.evaluation(attempt) == evaluation
    assert [message.content for message in log.archive.messages(attempt.completion)] == [
        "be quick",
        "make it fast",
    ]
    assert (attempt.status, attempt.speedup, attempt.passed) == (Status.PASSED, 2.0, True)


def test_the_latest_evaluation_counts_and_the_earlier_ones_stay(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        attempt = make.attempt(log, Status.TIMED_OUT)
        log.record_evaluation(attempt, make.evaluation(Status.PASSED, 3.0))
    (folded,) = log.archive.attempts(log.run)
    assert (folded.status, folded.speedup) == (Status.PASSED, 3.0)
    lines = list(log.archive.lines(log.run))
    assert [line.score.status for line in lines if isinstance(line, EvaluationRecorded)] == [
        "TIMED_OUT",
        "PASSED",
    ]


def test_a_reply_is_recorded_once(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, None)
        with pytest.raises(ArchiveError, match="already holds a reply"):
            make.attempt(log, None)


def test_an_evaluation_needs_its_reply(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log, make.log(tmp_path) as other:
        stranger = make.attempt(other, None)
        with pytest.raises(ArchiveError, match="holds no reply"):
            log.record_evaluation(stranger, make.evaluation())


def test_an_attempt_id_says_what_was_asked_and_nothing_else(make: Make) -> None:
    keys = [make.key(), make.key(sample=1), make.key(turn=1), make.key("other"), make.key(backend="cuda")]
    assert len({key.attempt for key in keys}) == len(keys)
    assert make.key().attempt == make.key().attempt


def test_resuming_knows_what_was_spent_and_what_is_done(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample in range(10):
            make.attempt(log, Status.PASSED if sample % 2 else None, sample=sample)
        log.append(
            AssignmentDone(
                at=log.archive.started(log.run).at,
                problem="p",
                backend="b",
                model="m",
                strategy="s",
                attempts=1,
            )
        )
    with resume_run(log.archive, log.run) as again:
        spent = again.index.spent()
        assert (spent.attempts, spent.tokens, spent.cost_usd) == (10, 1000, Decimal("0.10"))
        assert again.index.usage().prompt_tokens == 500
        assert again.index.finished == {("p", "b", "m", "s")}
        assert again.index.best() == {"level1/01_add": 2.0}
        found = [again.find(make.key(log.run, sample=sample).attempt) for sample in range(10)]
        assert [attempt is not None and attempt.passed for attempt in found] == [False, True] * 5
        assert again.find("0" * 32) is None
    assert any(isinstance(line, RunResumed) for line in log.archive.lines(log.run))


def test_wall_time_counts_only_while_a_process_worked(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        pass
    path = log.archive.log_path(log.run)
    first = json.loads(path.read_text())
    times = [
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:07+00:00",
        "2026-01-02T00:00:00+00:00",
        "2026-01-02T00:00:03+00:00",
    ]
    base = {"schema_version": 1, "kind": "problem_skipped", "problem": "p", "message": "m"}
    resumed = {"schema_version": 1, "kind": "run_resumed"}
    lines = [
        first | {"at": times[0]},
        base | {"at": times[1]},
        resumed | {"at": times[2]},
        base | {"at": times[3]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    from kernelwright.agent.archive import RunLog

    with RunLog(log.archive, log.run) as again:
        assert again.index.spent().seconds == 10.0


def test_a_log_that_another_program_wrote_anew_still_folds(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.PASSED, sample=0)
        make.attempt(log, None, sample=1)
    before = list(log.archive.attempts())
    path = log.archive.log_path(log.run)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
    assert list(log.archive.attempts()) == before


def test_a_torn_line_is_moved_aside_and_noted(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, None, sample=0)
        make.attempt(log, None, sample=1)
    path = log.archive.log_path(log.run)
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    with resume_run(log.archive) as again:
        assert len(again.index.attempts) == 1
    (note,) = [line for line in log.archive.lines(log.run) if isinstance(line, LogRepaired)]
    torn = (again.folder / note.moved_to).read_bytes()
    assert len(torn) == note.size
    assert data[:-100].endswith(torn)


def test_two_writers_of_one_run_are_refused(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log, pytest.raises(ArchiveError, match="another process"):
        resume_run(log.archive, log.run)


def test_runs_are_found_by_an_unmistakable_beginning(tmp_path: Path, make: Make) -> None:
    archive = Archive(tmp_path / "runs")
    with pytest.raises(UnknownRun, match="no run in"):
        archive.find()
    with make.log(tmp_path) as old, make.log(tmp_path) as new:
        assert archive.runs() == [old.run, new.run]
        assert archive.find() == new.run
        assert archive.find(old.run) == old.run
        assert archive.find(new.run[:-1]) == new.run
        with pytest.raises(UnknownRun, match="could be"):
            archive.find(old.run[:8])
        with pytest.raises(UnknownRun, match="known: "):
            archive.find("1999")


def test_a_run_whose_first_line_was_never_whole_does_not_exist(tmp_path: Path, make: Make) -> None:
    hidden = tmp_path / "runs" / ".20260101-000000-000-aaaa"
    hidden.mkdir(parents=True)
    (hidden / "attempts.jsonl").write_text("")
    with make.log(tmp_path) as log:
        assert log.archive.runs() == [log.run]


def test_reading_while_a_run_is_written_sees_whole_lines_only(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log)
        path = log.archive.log_path(log.run)
        with path.open("ab") as half:
            half.write(b'{"schema_version":1,"at":"2026')
            half.flush()
            assert len(list(log.archive.attempts())) == 1


def test_broken_unicode_from_anywhere_is_recorded(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        key = make.key(log.run)
        attempt = log.record_completion(key, make.answer(key, make.reply() + "\ud800"))
        log.record_evaluation(attempt, make.evaluation(output_tail="\udfff", detail="\ud800" * 3))
    (attempt,) = log.archive.attempts()
    assert log.archive.reply(attempt.completion).endswith("\ud800")
    evaluation = log.archive.evaluation(attempt)
    assert evaluation is not None and evaluation.output_tail == "?"


def test_infinities_survive(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        attempt = make.attempt(log, None)
        measurement = make.measurement(2.0, low=1.0, high=float("inf"))
        log.record_evaluation(attempt, make.evaluation(measurement=measurement))
    (attempt,) = log.archive.attempts()
    assert attempt.evaluation is not None
    assert attempt.evaluation.score.high == float("inf")


def test_lines_stay_small_however_long_the_texts(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        key = make.key(log.run)
        attempt = log.record_completion(key, make.answer(key, make.reply("m" * 200_000)))
        log.record_evaluation(attempt, make.evaluation(output_tail="t" * 200_000))
    assert max(map(len, log.archive.log_path(log.run).read_bytes().splitlines()[1:])) < 4096


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_killed_anywhere_leaves_a_log_that_goes_on(tmp_path: Path, seed: int) -> None:
    program = tmp_path / "writer.py"
    program.write_text(
        f"""
import sys, threading
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
import importlib.util
spec = importlib.util.spec_from_file_location("builders", {str(ROOT / "tests/agent/conftest.py")!r})
builders = sys.modules["builders"] = importlib.util.module_from_spec(spec); spec.loader.exec_module(builders)
make = builders.Make()
log = make.log(Path({str(tmp_path)!r}))
def work(thread):
    for sample in range(10_000):
        key = make.key(log.run, sample=sample, turn=thread)
        text = make.reply(f"{{thread}} {{sample}}" + "x" * 3000)
        attempt = log.record_completion(key, make.answer(key, text))
        print(attempt.id, flush=True)
        log.record_evaluation(attempt, make.evaluation(output_tail="t" * 2000))
print("begun", flush=True)
for thread in range(3):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
threading.Event().wait()
"""
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        time.sleep(random.Random(seed).uniform(0.02, 0.3))
        writer.kill()
        told = set(writer.stdout.read().split())
    archive = Archive(tmp_path / "runs")
    with resume_run(archive) as log:
        found: list[Attempt] = list(archive.attempts(log.run))
    ids = [attempt.id for attempt in found]
    assert len(ids) == len(set(ids))
    assert {name for name in told if len(name) == 32} <= set(ids)
    for attempt in found:
        assert archive.code(attempt)
        if attempt.evaluation is not None:
            assert archive.evaluation(attempt)
    assert not list((log.folder / "texts" / "pending").glob("*"))
    kinds = [type(line) for line in archive.lines(log.run)]
    assert kinds[0] is RunStarted and kinds.count(CompletionRecorded) == len(ids)


def test_an_evaluation_that_cannot_be_read_is_an_archive_error(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        attempt = make.attempt(log)
        assert attempt.evaluation is not None
        other = attempt.evaluation.model_copy(update={"evaluation": '{"status": "PASSED"}'})
        log.append(other)
        damaged = log.find(attempt.id)
        assert damaged is not None
        with pytest.raises(ArchiveError, match=f"attempt {attempt.id} of run .* cannot be read"):
            log.archive.evaluation(damaged)
