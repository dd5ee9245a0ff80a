"""Requests of a referee to its driver."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.evaluator.ipc import driver_requests as wire
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.referee.worker.driver_link import DriverLink


class Link(DriverLink):
    """A link that keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def ask(self, request: Any) -> Any:
        self.asked.append(request)
        return wire.DeviceHeld(waited_s=0.5) if isinstance(request, wire.Hold) else Done()


@pytest.mark.parametrize("after_tools", [False, True])
def test_a_hold_says_if_calls_under_tools_are_waited_for(after_tools: bool) -> None:
    link = Link()
    assert link.hold(exclusive=True, after_tools=after_tools) == 0.5
    assert link.asked == [wire.Hold(exclusive=True, anew=False, after_tools=after_tools)]


def test_a_step_is_recorded_when_it_is_over_even_if_it_fails() -> None:
    link = Link()
    with link.step("size"):
        assert link.asked == []
    with pytest.raises(ValueError, match="no"), link.step("compare"):
        raise ValueError("no")
    assert [each.name for each in link.asked] == ["size", "compare"]
    assert all(0 <= each.seconds < 10 for each in link.asked)
