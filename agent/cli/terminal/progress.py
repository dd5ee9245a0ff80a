"""The live view of a run: a line for every evaluation, and below them the attempts in flight."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernelwright.agent.cli.terminal.console import colour, notes, shortened
from kernelwright.agent.providers.rate_limits import Retrying
from kernelwright.agent.records.attempt_log import AttemptKey
from kernelwright.agent.records.durations import seconds
from kernelwright.agent.runner import events

MAX_ROWS: Final = 16
"""Attempts in flight that are shown; the rest is a count."""

LONG_WAIT_S: Final = 10.0
"""Waits from this length on get a line of their own."""

STATES: Final = {
    "screen": "screening",
    "open": "opening",
    "build": "building",
    "load": "loading",
    "verify": "verifying",
    "time": "timing",
    "attribute": "attributing",
    "sanitize": "sanitizing",
    "decide": "deciding",
}


@dataclass(slots=True)
class _Flight:
    """One attempt between its question and its evaluation."""

    of: AttemptKey
    state: str
    since: float


@dataclass(slots=True)
class _Wait:
    """A provider that is not asked right now, and the reason."""

    of: Retrying
    until: float

    @property
    def is_long(self) -> bool:
        return self.of.lasts_s >= LONG_WAIT_S

    def line(self) -> str:
        """For as long as it lasts."""
        state, left = self.of.state, seconds(self.until - time.monotonic())
        who = f"; {state.queued} in line, {state.concurrency} at once"
        return f"{left}: {' '.join(self.of.message.split())}{who}"


@dataclass(slots=True)
class _RunCounters:
    """Counts what a process sees of a run, for the line above the attempts in flight."""

    assignments: int = 0
    finished: int = 0
    """Assignments, by earlier processes too."""
    evaluates: bool = True
    bulk: events.Waiting | None = None
    """Progress of the batches of a run that asks in bulk."""
    asked: int = 0
    evaluated: int = 0
    passed: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    tokens: int = 0
    done_here: int = 0
    """Replies or evaluations that this process waited for."""
    under_way: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Assignments that this process has done something for."""
    finished_here: int = 0
    """Of the finished ones, those this process has done something for: they tell how long others take."""
    started: float = field(default_factory=time.monotonic)

    def count(self, event: events.Event) -> None:
        """Count what an event tells."""
        match event:
            case events.Asking() | events.Judging():
                of = event.of
                self.under_way.add((of.problem, of.backend, of.model, of.strategy))
            case events.AssignmentFinished():
                key = (event.problem, event.backend, event.model, event.strategy)
                self.finished += 1
                self.finished_here += key in self.under_way
                self.under_way.discard(key)
            case events.Replied():
                self.asked += 1
                self.tokens += event.usage.prompt_tokens + event.usage.completion_tokens
                self.cost_usd += event.cost_usd or 0.0
                self.unpriced += event.cost_usd is None
                self.done_here += not (self.evaluates or event.recorded)
            case events.Judged():
                self.evaluated += not event.confirms
                self.passed += not event.confirms and event.status == "PASSED"
                self.done_here += not event.recorded
            case events.Waiting():
                self.bulk = event
            case _:
                pass

    def line(self) -> str:
        """Everything counted so far, on one line."""
        spent = time.monotonic() - self.started
        bulk, left = self.bulk, self.assignments - self.finished
        evaluated = f"{self.evaluated} evaluated, {self.passed} passed"
        parts = [
            f"{bulk.answered + bulk.failed}/{bulk.requests} questions"
            if bulk
            else f"{self.finished}/{self.assignments} problems",
            evaluated if self.evaluates else f"{self.asked} replies",
            f"{self.tokens:,} tokens",
        ]
        if self.cost_usd:
            parts.append(f"${self.cost_usd:.2f}")
        if self.unpriced:
            parts.append(f"cost of {self.unpriced} replies unknown")
        if self.done_here:
            parts.append(f"{60 * self.done_here / spent:.1f} a minute")
        if self.finished_here and left:
            parts.append(f"about {seconds(spent / self.finished_here * left)} left")
        return " · ".join([*parts, seconds(spent)])


class ProgressView:
    """Follows a run's events; safe to call from any thread."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or notes()
        self._lock = threading.RLock()
        self._flights: dict[str, _Flight] = {}
        self._waits: dict[str, _Wait] = {}
        """By provider."""
        self._gone: set[str] = set()
        """Models that are not asked again, which is said once."""
        self._tally = _RunCounters()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=4, transient=True, get_renderable=self._render
            )
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: events.Event) -> None:
        with self._lock:
            told = None if self._is_known(event) else describe(event)
            self._follow(event)
        if told is not None:
            self._console.print(told, soft_wrap=not self._console.is_terminal)

    def _is_known(self, event: events.Event) -> bool:
        """True if an earlier line already reported the lost model or the wait for its provider."""
        match event:
            case Retrying():
                wait = self._waits.get(event.provider)
                return wait is not None and wait.is_long and wait.until > time.monotonic()
            case events.ProviderTrouble() if event.for_good:
                known = event.of.model in self._gone
                self._gone.add(event.of.model)
                return known
            case _:
                return False

    def _follow(self, event: events.Event) -> None:
        if isinstance(event, events.RunOpened):
            self._tally = _RunCounters(event.assignments, event.finished, event.judges)
        elif isinstance(event, Retrying):
            self._wait(event)
        self._tally.count(event)
        of = getattr(event, "of", None)
        if of is not None:
            self._set(of, _state(event, evaluates=self._tally.evaluates))

    def _set(self, of: AttemptKey, state: str | None) -> None:
        known = self._flights.get(of.attempt)
        if state is None:
            self._flights.pop(of.attempt, None)
        elif known is None or known.state != state:
            self._flights[of.attempt] = _Flight(of, state, time.monotonic())

    def _wait(self, event: Retrying) -> None:
        """Remember what is waited for; of one provider's troubles the one that lasts longest."""
        wait = _Wait(event, time.monotonic() + event.lasts_s)
        known = self._waits.get(event.provider)
        if known is None or wait.until > known.until:
            self._waits[event.provider] = wait

    def _render(self) -> RenderableType:
        with self._lock:
            flights = list(self._flights.values())
            totals = self._tally.line()
            waits = [wait.line() for wait in self._waits.values() if wait.until > time.monotonic()]
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for flight in flights[:MAX_ROWS]:
            waited = seconds(now - flight.since)
            table.add_row(
                flight.of.problem, flight.of.model, f"turn {flight.of.turn + 1}", flight.state, waited
            )
        more = [Text(f"and {len(flights) - MAX_ROWS} more", style="dim")] if len(flights) > MAX_ROWS else []
        return Group(
            Text(totals, style="bold"), *(_line("waits", "yellow", wait) for wait in waits), table, *more
        )


def _state(event: events.Event, *, evaluates: bool) -> str | None:
    """The state of an attempt from an event on; None where it is not in flight."""
    match event:
        case events.Asking():
            return "asking"
        case events.Replied() if evaluates:
            return "queued for evaluation"
        case events.Judging():
            return "evaluating"
        case events.EvaluationWaits():
            return waiting_place(event.ahead)
        case events.StageEntered():
            return STATES.get(event.stage, str(event.stage))
        case _:
            return None


def describe(event: events.Event) -> Text | None:
    """The line an event deserves, if it deserves one."""
    match event:
        case events.Judged():
            return _evaluated(event)
        case events.ProviderTrouble():
            whose = f"{event.of.model} is not asked again" if event.for_good else event.of.problem
            return _line("no reply", "yellow", f"{whose}: {event.message}")
        case events.EvaluatorTrouble():
            return _line("not evaluated", "yellow", f"{event.of.problem}: {event.message}")
        case events.Skipped():
            return _line("skipped", "yellow", f"{event.problem}: {event.message}")
        case events.Refused():
            return _line("not saved", "yellow", f"{event.of.problem}: {event.message}")
        case events.BudgetReached():
            return _line("budget", "yellow", f"{event.what}: nothing more is asked")
        case Retrying() if event.lasts_s >= LONG_WAIT_S:
            return _line("waits", "yellow", f"{seconds(event.lasts_s)}: {event.message}")
        case events.Waiting():
            return _waiting(event)
        case events.Interrupting():
            work = f"{event.replies} replies, {event.evaluations} evaluations, {event.kernels} kernels"
            return _line("stopping", "yellow", f"finishing {work}; Ctrl-C again stops at once")
        case _:
            return None


def waiting_place(ahead: int | None) -> str:
    """The place of an evaluation in the queue of a judge elsewhere."""
    return "queued at the judge" + ("; its queue is full" if ahead is None else f", {ahead} ahead")


def _waiting(event: events.Waiting) -> Text:
    under_way = ", ".join(event.statuses) or "no batch under way"
    refused = f", {event.failed} refused" if event.failed else ""
    told = f"{event.answered} of {event.requests} replies{refused}; {under_way}; {event.trouble}"
    return _line("in bulk", "yellow" if event.trouble else "default", told.rstrip("; "))


def _evaluated(event: events.Judged) -> Text:
    turn = f"turn {event.of.turn + 1}" + (f" of sample {event.of.sample + 1}" if event.of.sample else "")
    speed = f"{event.speedup:.2f}×" if event.speedup is not None else ""
    again = " (same code as before)" if event.reused else " (measured again)" if event.confirms else ""
    untimed = "correct; contended, so no speedup counts" if event.contended else "correct, not timed"
    told = f"{event.of.problem} {turn}: {speed or event.detail or untimed}{again}"
    return _line(event.status, colour(event.status), told)


def _line(label: str, style: str, text: str) -> Text:
    return Text(f"{label:<17}", style=style).append(shortened(text), style="default")
