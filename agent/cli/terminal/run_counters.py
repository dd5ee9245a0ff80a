"""Counts the events of a run, for the line above the attempts in flight."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kernelwright.agent.records.durations import seconds
from kernelwright.agent.runner import events


@dataclass(slots=True)
class RunCounters:
    """Counts what a process sees of a run."""

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
