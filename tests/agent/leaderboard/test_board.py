"""Standings from real logs: what is counted, where, and how it is shown."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from kernelwright.agent.archive import Archive
from kernelwright.agent.leaderboard import Board, Entry, board, render, to_csv
from kernelwright.agent.leaderboard.rows import read_rows
from kernelwright.agent.leaderboard.standings import _at_k, board_of
from kernelwright.agent.records.score import is_cheat
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.agent.records.strict_json import strict_json
from kernelwright.evaluator import EvaluationConfig, Finding, Math, Sanitization, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def only(standing: Board) -> Entry:
    (entry,) = standing.entries
    return entry


def problem(number: int) -> str:
    return f"level1/{number:02}_p"


def test_counts_shares_and_means_are_over_problems(tmp_path: Path, make: Make) -> None:
    outcomes = {1: [3.0, None], 2: [None, None], 3: [0.5, 1.2], 4: [1.0, 1.0]}
    with make.log(tmp_path) as log:
        for number, speedups in outcomes.items():
            for sample, speedup in enumerate(speedups):
                status = Status.WRONG_VALUES if speedup is None else Status.PASSED
                make.attempt(log, status, problem=problem(number), sample=sample, speedup=speedup)
    standing = board(log.archive.attempts())
    entry = only(standing)
    assert (entry.problems, entry.solved, entry.attempts, entry.samples) == (4, 3, 8, 8)
    assert entry.statuses == {"PASSED": 5, "WRONG_VALUES": 3}
    assert {point.p: point.best.value for point in entry.fast_p} == {
        0.0: 0.75,
        1.0: 0.5,
        1.5: 0.25,
        2.0: 0.25,
    }
    per_attempt = {point.p: point.per_attempt for point in entry.fast_p}
    assert per_attempt == {0.0: (0.5 + 0 + 1 + 1) / 4, 1.0: (0.5 + 0 + 0.5 + 0) / 4, 1.5: 0.125, 2.0: 0.125}
    assert entry.geomean.value == pytest.approx((3.0 * 1.0 * 1.2 * 1.0) ** (1 / 4))
    assert entry.geomean_solved == pytest.approx((3.0 * 1.2 * 1.0) ** (1 / 3))
    assert [at.k for at in entry.at_k] == [1, 2]
    assert entry.at_k[0].passed == pytest.approx(2.5 / 4)
    assert entry.at_k[1].speedup == pytest.approx(entry.geomean.value)
    first = (math.log(3) / 2 + 0 + (math.log(0.5) + math.log(1.2)) / 2 + 0) / 4
    assert entry.at_k[0].speedup == pytest.approx(math.exp(first))
    assert (entry.tokens, entry.tokens_per_solved) == (800, pytest.approx(800 / 3))
    assert entry.cost_usd == pytest.approx(0.08)
    best = {row.problem: row.best.speedup if row.best else None for row in standing.problems}
    assert best == {problem(1): 3.0, problem(2): None, problem(3): 1.2, problem(4): 1.0}


def test_a_slow_right_kernel_is_preferred_to_a_failure_and_counts_as_slow(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.PASSED, speedup=0.5)
        make.attempt(log, Status.WRONG_VALUES, sample=1)
    entry = only(board(log.archive.attempts()))
    assert entry.geomean.value == pytest.approx(0.5)
    assert entry.at_k[1].speedup == pytest.approx(0.5)


def test_a_conversation_is_one_sample_and_a_population_is_too(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for turn in range(3):
            status = Status.PASSED if turn == 1 else Status.COMPILE_ERROR
            make.attempt(log, status, strategy="refine", sample=0, turn=turn)
            make.attempt(log, Status.COMPILE_ERROR, strategy="refine", sample=1, turn=turn)
            make.attempt(log, status, strategy="evolve", sample=turn, turn=0)
    refine, evolve = sorted(board(log.archive.attempts()).entries, key=lambda entry: -entry.samples)
    assert (refine.samples, refine.at_k[0].passed, refine.at_k[1].passed) == (2, 0.5, 1.0)
    assert (evolve.samples, [at.k for at in evolve.at_k]) == (1, [1])


def test_what_never_reached_a_device_counts_where_its_run_ran(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.NO_CODE, sample=0)
        make.attempt(log, Status.COMPILE_ERROR, sample=1)
        make.attempt(log, Status.PASSED, sample=2)
    with make.log(tmp_path) as nowhere:
        make.attempt(nowhere, Status.NO_CODE, backend="cuda")
    entries = {entry.of.backend: entry for entry in board(log.archive.attempts()).entries}
    assert entries["cpp"].of.hardware == "Test CPU"
    assert entries["cpp"].statuses == {"COMPILE_ERROR": 1, "NO_CODE": 1, "PASSED": 1}
    assert entries["cuda"].of.hardware == "unknown"


def test_policies_and_hardware_are_never_mixed(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample, config in enumerate(
            [EvaluationConfig(), EvaluationConfig(math=Math.TF32), EvaluationConfig(shapes="small")]
        ):
            attempt = make.attempt(log, None, sample=sample)
            log.record_evaluation(attempt, make.evaluation(config=config))
        attempt = make.attempt(log, None, sample=9)
        log.record_evaluation(attempt, make.evaluation(device="NVIDIA H200"))
    assert len(board(log.archive.attempts()).entries) == 4


def test_every_policy_has_its_own_table_the_most_used_first_and_says_what_differs(
    tmp_path: Path, make: Make
) -> None:
    many, few = EvaluationConfig(), EvaluationConfig(baselines=("eager",), trials=3)
    with make.log(tmp_path) as log:
        for sample, (config, speedup) in enumerate([(few, 9.0), (many, 2.0), (many, 1.5)]):
            attempt = make.attempt(log, None, sample=sample)
            log.record_evaluation(attempt, make.evaluation(config=config, speedup=speedup))
        make.attempt(log, Status.NO_CODE, sample=3)
    standing = board(log.archive.attempts())
    assert [(entry.rank, entry.attempts, entry.per_problem) for entry in standing.entries] == [
        (1, 3, 3.0),
        (1, 1, 1.0),
    ]
    assert len({entry.of.id for entry in standing.entries}) == 2
    text = " ".join(shown(standing, 300).split())
    assert "against compile and eager · 7 trials" in text
    assert (
        "not to be compared with the first table: against eager, not against compile and eager; "
        "3 trials, not 7 trials" in text
    )
    lines = to_csv(standing).splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == [entry.of.id for entry in standing.entries]
    assert "compile eager" in lines[1]


def test_the_best_of_several_is_marked_until_it_was_measured_again(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, speedup=2.0, sample=0, confirms=False)
        best = make.attempt(log, speedup=3.0, sample=1, confirms=False)
        lucky = board(log.archive.attempts())
        assert "1.00×~" in shown(lucky) and "3.00×" not in shown(lucky)
        (line,) = csv.DictReader(io.StringIO(to_csv(lucky)))
        assert (line["geomean"], line["unconfirmed"], only(lucky).rank) == ("1.0", "1", 1)
        log.record_evaluation(best, make.evaluation(speedup=2.5), confirms=True)
    confirmed = board(log.archive.attempts())
    assert "2.50×" in shown(confirmed) and "~" not in shown(confirmed)
    assert only(confirmed).unconfirmed == 0


def test_a_slow_best_of_several_is_not_made_faster(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, speedup=0.5, sample=0, confirms=False)
        make.attempt(log, speedup=0.7, sample=1, confirms=False)
    assert only(board(log.archive.attempts())).geomean.value == pytest.approx(0.7)


def test_the_best_of_several_is_of_no_more_than_every_problem_has() -> None:
    assert [at.k for at in _at_k([[2.0], [None, 1.5, 3.0, 1.0]])] == [1]


@pytest.mark.parametrize(
    ("status", "fatal", "cheats"),
    [
        (Status.TAMPERED, (), True),
        (Status.REJECTED, ("syntax",), False),
        (Status.REJECTED, ("contract", "network"), True),
        (Status.RUNTIME_ERROR, ("network",), False),
        (Status.WRONG_VALUES, (), False),
    ],
)
def test_only_what_is_refused_for_more_than_its_form_is_a_cheat(
    status: Status, fatal: tuple[str, ...], cheats: bool
) -> None:
    assert is_cheat(status, fatal) is cheats


def test_cheats_are_told_from_broken_candidates(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.TAMPERED, sample=0)
        for sample, rule in enumerate(["contract", "patching"], 1):
            attempt = make.attempt(log, None, sample=sample)
            finding = Finding(rule=rule, message="m", fatal=True)
            log.record_evaluation(attempt, make.evaluation(Status.REJECTED, source=rule, findings=(finding,)))
        make.attempt(log, Status.PASSED, sample=3)
    entry = only(board(log.archive.attempts()))
    assert (entry.cheats, entry.cheating_rate) == (2, 0.5)


def test_unjudged_replies_count_nowhere_and_are_said(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, None, sample=0)
        make.attempt(log, Status.PASSED, sample=1)
    standing = board(log.archive.attempts())
    assert (standing.unjudged, standing.attempts, only(standing).attempts) == (1, 1, 1)
    assert "1 replies wait" in shown(standing)


def test_an_untimed_pass_is_right_and_no_faster(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.PASSED, speedup=None)
    entry = only(board(log.archive.attempts()))
    assert [point.best.value for point in entry.fast_p] == [1.0, 0.0, 0.0, 0.0]
    assert entry.geomean.value == 1.0


def test_a_track_counts_only_its_own_kernels(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample, track in enumerate(["own", "library"]):
            attempt = make.attempt(log, None, sample=sample)
            found = make.evaluation(speedup=2.0 + sample, source=track, track=track)
            log.record_evaluation(attempt, found, confirms=True)
    assert only(board(log.archive.attempts())).tracks == {"library": 1, "own": 1}
    assert only(board_of(read_rows(log.archive.attempts()), track="own")).geomean.value == pytest.approx(2.0)


def test_models_within_noise_share_the_first_rank_and_a_clear_loser_does_not(
    tmp_path: Path, make: Make
) -> None:
    speed = {"model-a": 2.0, "model-b": 1.95, "model-c": 1.0}
    with make.log(tmp_path) as log:
        for model, factor in speed.items():
            for number in range(8):
                make.attempt(log, model=model, problem=problem(number), speedup=factor * (1 + number / 10))
    entries = board(log.archive.attempts()).entries
    assert [(entry.of.model, entry.rank) for entry in entries] == [
        ("model-a", 1),
        ("model-b", 1),
        ("model-c", 3),
    ]
    for entry in entries:
        assert entry.geomean.low is not None and entry.geomean.high is not None
        assert entry.geomean.low < entry.geomean.value < entry.geomean.high
    assert len({entry.problem_set for entry in entries}) == 1


def test_what_was_not_sanitized_is_marked_and_not_first_where_the_tools_exist(
    tmp_path: Path, make: Make
) -> None:
    ran, not_run = Sanitization(ran=True, tools=("memcheck",)), Sanitization(ran=False, reason="switched off")
    with make.log(tmp_path) as log:
        for model, speedup, said in (("hasty", 4.0, not_run), ("checked", 1.5, ran)):
            for number in range(6):
                name = problem(number)
                attempt = make.attempt(log, None, model=model, problem=name)
                verdict = make.evaluation(
                    speedup=speedup, source=model, problem=make.problem(name), sanitization=said
                )
                log.record_evaluation(attempt, verdict)
    standing = board(log.archive.attempts())
    assert [(entry.of.model, entry.rank, entry.doubted) for entry in standing.entries] == [
        ("checked", 1, 0),
        ("hasty", 2, 6),
    ]
    for row in standing.problems:
        assert row.best is not None
        assert (row.best.model, row.best.speedup, row.best.is_doubted) == ("checked", 1.5, False)
    assert "2†" in shown(standing) and "not sanitized" in shown(standing)


def test_nothing_is_doubted_where_no_tool_is_known_to_work(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.PASSED)
        attempt = make.attempt(log, None, backend="cuda")
        there = make.evaluation(
            backend="cuda", device="NVIDIA H200", sanitization=Sanitization(ran=True, tools=("memcheck",))
        )
        log.record_evaluation(attempt, there)
        libraries = make.attempt(log, None, backend="cuda", sample=1)
        log.record_evaluation(
            libraries, make.evaluation(backend="cuda", device="NVIDIA H200", track="library")
        )
    assert [entry.doubted for entry in board(log.archive.attempts()).entries] == [0, 0]


def test_the_steps_of_the_curve_are_the_best_speedups_of_solved_problems(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for number, speedup in enumerate([0.5, 3.0, None, 1.5]):
            status = Status.WRONG_VALUES if speedup is None else Status.PASSED
            make.attempt(log, status, problem=problem(number), speedup=speedup)
            make.attempt(log, Status.PASSED, problem=problem(number), sample=1, speedup=0.25)
    entry = only(board(log.archive.attempts()))
    assert entry.speedups == (3.0, 1.5, 0.5, 0.25)
    for point in entry.fast_p:
        assert point.best.value == sum(speedup > point.p for speedup in entry.speedups) / entry.problems


def shown(standing: Board, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(standing))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_json_csv_and_terminal_say_the_same(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for number in range(6):
            make.attempt(log, Status.PASSED, problem=problem(number), speedup=1.0 + number)
            make.attempt(log, Status.NO_CODE, problem=problem(number), sample=1, model="model, b")
    standing = board(log.archive.attempts())
    assert Board.model_validate_json(strict_json(standing)) == standing
    lines = list(csv.DictReader(io.StringIO(to_csv(standing))))
    assert [line["model"] for line in lines] == ["model-a", "model, b"]
    assert float(lines[0]["geomean"]) == standing.entries[0].geomean.value
    assert lines[1]["NO_CODE"] == "6" and lines[1]["geomean_solved"] == ""
    text = shown(standing)
    for words in ("cpp · Test CPU · fp32", "model-a", "6/6", "fast_1.5", "level1/05_p", "6.00×", "$0.01"):
        assert words in text


def test_csv_has_tracks_every_k_and_the_speed_of_light(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample in range(4):
            make.attempt(log, Status.PASSED if sample else Status.WRONG_VALUES, sample=sample)
    (line,) = csv.DictReader(io.StringIO(to_csv(board(log.archive.attempts()))))
    assert (line["pass_at_1"], line["pass_at_4"], line["pass_at_8"]) == ("0.75", "1.0", "")
    assert (line["track_own"], line["track_library"], line["speed_of_light_median"]) == ("3", "0", "")


def test_a_cost_that_is_partly_unknown_is_not_told_too_low(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for sample, cost in enumerate((0.25, None)):
            key = make.key(log.run, sample=sample)
            attempt = log.record_completion(key, make.answer(key, make.reply(sample), cost_usd=cost))
            log.record_evaluation(attempt, make.evaluation(source=make.code(sample)))
    standing = board(log.archive.attempts())
    assert (only(standing).cost_usd, only(standing).unpriced) == (0.25, 1)
    assert only(standing).cost_per_solved_usd is None
    assert "$ unknown" in shown(standing) and "$0.25" not in shown(standing)


def test_flawed_problems_and_contended_measurements_are_marked(tmp_path: Path, make: Make) -> None:
    measured = make.measurement(2.0).model_copy(update={"contended": True})
    with make.log(tmp_path) as log:
        attempt = log.record_completion(key := make.key(log.run), make.answer(key, make.reply()))
        log.record_evaluation(
            attempt, make.evaluation(measurement=measured, problem_flaws=("ignores_input",))
        )
    standing = board(log.archive.attempts())
    (entry,) = standing.problems
    assert entry.best is not None
    assert (entry.flaws, entry.best.unfit) == (
        ("ignores_input",),
        exclusion_reason(make.evaluation(measurement=measured)),
    )
    assert (entry.best.speedup, entry.best.low) == (1.0, None)
    text = shown(standing)
    assert "level1/01_add§" in text and "1.00×‡" in text and "level1/01_add (ignores_input)" in text


def test_names_of_strangers_never_steer_the_terminal(tmp_path: Path, make: Make) -> None:
    evil = "\x1b[31mred\x07\u202e\nmodel"
    with make.log(tmp_path) as log:
        for name in ("problem", "model", "strategy", "backend"):
            make.attempt(log, **{name: f"level1/{evil}" if name == "problem" else evil})
    text = shown(board(log.archive.attempts()), 400)
    assert not set("\x1b\x07\u202e") & set(text + to_csv(board(log.archive.attempts())))
    assert "⟨U+001B⟩[31mred" in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_number_is_cut_however_narrow_the_terminal(tmp_path: Path, make: Make, width: int) -> None:
    with make.log(tmp_path) as log:
        for number in range(6):
            make.attempt(log, problem=problem(number), speedup=1.25 + number, model="some-lab/model-8b")
    text = "".join(shown(board(log.archive.attempts()), width).split())
    for words in ("1.25×", "6.25×", "6/6", "100%", "$0.01"):
        assert words in text
    assert width < 60 or "some-lab" in text


def test_nothing_gives_an_empty_board() -> None:
    standing = board([])
    assert (standing.entries, standing.problems) == ((), ())
    assert to_csv(standing).startswith("rank,policy,model,strategy,") and to_csv(standing).count("\n") == 1
    assert shown(standing)


@pytest.mark.parametrize("impossible", ["NaN", "Infinity", "1e999", "-1.0", "0"])
def test_a_speedup_that_cannot_be_is_damage_of_its_line(tmp_path: Path, make: Make, impossible: str) -> None:
    with make.log(tmp_path) as log:
        for sample in range(2):
            make.attempt(log, sample=sample, speedup=2.0 + sample)
    path = log.folder / "attempts.jsonl"
    path.write_text(path.read_text().replace('"speedup":3.0', f'"speedup":{impossible}'))
    told: list[str] = []
    standing = board(Archive(tmp_path / "runs", told.append).attempts())
    assert only(standing).geomean.value == 2.0
    assert standing.unjudged == 1
    assert len(told) == 1 and "damaged" in told[0]
