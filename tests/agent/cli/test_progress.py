"""Progress of a run on the terminal: counts that survive a resume, and why nothing moves."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from kernelwright.agent.cli.terminal.progress import ProgressView
from kernelwright.agent.providers.rate_limits import ProviderState, Retrying
from kernelwright.agent.records.attempt_log import AttemptKey
from kernelwright.agent.records.messages import Usage
from kernelwright.agent.runner import events
from kernelwright.evaluator import Status


def name(number: int = 0, model: str = "m") -> AttemptKey:
    return AttemptKey(run="r", problem=f"p{number}", backend="cpp", model=model, strategy="sample")


def opened(**more: Any) -> events.RunOpened:
    fields = {
        "run_id": "r",
        "assignments": 100,
        "finished": 0,
        "attempts_planned": 100,
        "resumed_attempts": 0,
    }
    return events.RunOpened(**{**fields, **more})


def replied(number: int, **more: Any) -> events.Replied:
    fields = {"extraction": "CODE", "rule": "", "seconds": 1.0, "usage": Usage(), "cost_usd": 0.5}
    return events.Replied(of=name(number), **{**fields, "cached": False, "recorded": False, **more})


def judged(number: int, **more: Any) -> events.Judged:
    fields = {"status": Status.PASSED, "speedup": 2.0, "detail": "", "reused": False, "recorded": False}
    return events.Judged(of=name(number), **{**fields, **more})


def finished(number: int) -> events.AssignmentFinished:
    task = {"problem": f"p{number}", "backend": "cpp", "model": "m", "strategy": "sample"}
    return events.AssignmentFinished(**task, attempts=1, passed=1, speedup=2.0, complete=True)


def shown(watcher: ProgressView) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(watcher._render())
    return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is the StringIO above


def follow(*seen: events.Event) -> ProgressView:
    watcher = ProgressView(Console(file=io.StringIO()))
    for event in seen:
        watcher(event)
    return watcher


def test_a_resumed_run_counts_what_was_finished_before() -> None:
    assert "90/100 problems" in shown(follow(opened(finished=90)))


def test_only_what_this_process_did_tells_the_rate_and_the_time_left() -> None:
    old = [replied(1, recorded=True), judged(1, recorded=True), finished(1)]
    recalled = shown(follow(opened(), *old))
    assert "1 evaluated, 1 passed" in recalled
    assert "a minute" not in recalled
    assert "left" not in recalled
    done = shown(follow(opened(), *old, events.Asking(of=name(2)), replied(2), judged(2), finished(2)))
    assert "2/100 problems" in done
    assert "a minute" in done
    assert "left" in done


def test_a_reply_waits_for_judging_only_where_this_process_judges() -> None:
    asked = [event for number in range(40) for event in (events.Asking(of=name(number)), replied(number))]
    judging = shown(follow(opened(), *asked))
    assert judging.count("queued for evaluation") == 16
    assert "and 24 more" in judging
    generating = shown(follow(opened(judges=False), *asked))
    assert "more" not in generating
    assert "queued" not in generating
    assert "40 replies" in generating


def test_bulk_jobs_count_questions() -> None:
    waiting = events.Waiting(requests=50, answered=7, failed=1, statuses=())
    assert "8/50 questions" in shown(follow(opened(judges=False), waiting))


@pytest.mark.parametrize(("unpriced", "said"), [(0, "$1.00"), (1, "$0.50 · cost of 1 replies unknown")])
def test_a_cost_that_nobody_knows_is_shown(unpriced: int, said: str) -> None:
    costs = [None, 0.5] if unpriced else [0.5, 0.5]
    text = shown(follow(opened(), *(replied(number, cost_usd=cost) for number, cost in enumerate(costs))))
    assert said in text


def retrying(seconds: float, paused_s: float) -> Retrying:
    state = ProviderState(in_flight=0, queued=12, concurrency=4, paused_s=paused_s)
    return Retrying("openai", "m", "p", "openai: too many\nrequests (429)", seconds, state)


def test_a_pause_says_why_for_how_long_and_how_many_wait() -> None:
    text = shown(follow(opened(), events.Asking(of=name()), retrying(1.0, 90.0), retrying(2.0, 0.0)))
    assert "waits" in text
    assert "1 m " in text
    assert "openai: too many requests (429); 12 in line, 4 at once" in text
    assert "waits" not in shown(follow(opened(), retrying(0.0, 0.0)))


def test_a_long_wait_gets_one_line_even_where_nothing_moves() -> None:
    file = io.StringIO()
    watcher = ProgressView(Console(file=file, width=200))
    for event in (retrying(2.0, 0.0), retrying(2.0, 600.0), retrying(2.0, 590.0)):
        watcher(event)
    (line,) = file.getvalue().splitlines()
    assert line.split(maxsplit=1)[1] == "10 m 00 s: openai: too many requests (429)"


def test_a_model_that_is_not_asked_again_is_said_once() -> None:
    file = io.StringIO()
    watcher = ProgressView(Console(file=file, width=200))
    for number in range(3):
        watcher(events.ProviderTrouble(of=name(number), message="no such model", for_good=True))
    watcher(events.ProviderTrouble(of=name(4, "other"), message="busy"))
    lines = file.getvalue().splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == [
        "m is not asked again: no such model",
        "p4: busy",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"contended": True}, "PASSED           p1 turn 1: correct; contended, so no speedup counts"),
        ({}, "PASSED           p1 turn 1: correct, not timed"),
        (
            {"status": Status.NONDETERMINISTIC, "detail": "two calls differ"},
            "NONDETERMINISTIC p1 turn 1: two calls differ",
        ),
    ],
)
def test_a_line_tells_why_a_correct_kernel_has_no_speedup(more: dict[str, Any], said: str) -> None:
    file = io.StringIO()
    ProgressView(Console(file=file, width=200))(judged(1, speedup=None, **more))
    assert file.getvalue().rstrip() == said
