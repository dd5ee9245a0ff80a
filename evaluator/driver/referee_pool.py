"""Referees that wait for the next candidate of their problem, and evaluations that wait for a referee."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.evaluator.driver.cancellation import CancelToken
from kernelwright.evaluator.driver.policy import CANCEL_CHECK_S, OPENING_S
from kernelwright.evaluator.driver.referee_client import RefereeClient


@dataclass(slots=True)
class _Problem:
    """The referees of one problem, policy and device."""

    idle: list[RefereeClient] = field(default_factory=list)
    at_work: int = 0
    """Taken, or being opened."""
    opening: int = 0
    """Those among them that have not evaluated anything yet."""
    waited_s: float = 0.0
    """Seconds that evaluations have waited, together, since the last one was opened."""


class RefereePool:
    """Idle referees by problem, policy and device; usable from any thread.

    An evaluation whose problem has a referee at work waits for it. Once such waiting has cost what opening
    another one costs, one is opened: never more than twice what it would have cost to know beforehand.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._problems: OrderedDict[str, _Problem] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def has(self, key: str) -> bool:
        """True while an idle referee waits under a key."""
        with self._changed:
            return key in self._problems and bool(self._problems[key].idle)

    def knows(self, key: str) -> bool:
        """True while a referee waits or works under a key, or is being opened."""
        with self._changed:
            return key in self._problems

    def take(self, key: str, device: str, stop: CancelToken) -> RefereeClient | None:
        """One that waits under a key, or will soon; None to open another. `keep` or `lose` has to follow.

        Raises Cancelled where `stop` is set while it waits.
        """
        price_s = OPENING_S[device.partition(":")[0]]
        with self._changed:
            while self._waits(problem := self._problems.setdefault(key, _Problem()), price_s):
                began = time.monotonic()
                self._changed.wait(CANCEL_CHECK_S)
                stop.check()
                if not problem.opening:  # before its first evaluation ends, nobody knows how long waiting is
                    problem.waited_s += time.monotonic() - began
            problem.at_work += 1
            if problem.idle:
                return problem.idle.pop()
            problem.waited_s = 0.0
            problem.opening += 1
            return None

    @staticmethod
    def _waits(problem: _Problem, price_s: float) -> bool:
        return not problem.idle and problem.at_work > 0 and problem.waited_s < price_s

    def keep(self, key: str, referee: RefereeClient, *, opened: bool) -> None:
        """Take back a referee after an evaluation; of too many, the longest unused ends."""
        surplus: list[RefereeClient] = []
        with self._changed:
            problem = self._left(key, opened=opened)
            problem.idle.append(referee)
            self._problems.move_to_end(key)
            most = 0 if self._closed else self._limit
            while sum(len(each.idle) for each in self._problems.values()) > most:
                surplus.append(next(each for each in self._problems.values() if each.idle).idle.pop(0))
            self._tidy()
        for extra in surplus:
            extra.close()

    def lose(self, key: str, *, opened: bool) -> None:
        """A referee that was taken, or opened instead, is gone."""
        with self._changed:
            self._left(key, opened=opened)
            self._tidy()

    def dismiss(self, is_meant: Callable[[str], bool]) -> bool:
        """End those of some devices, for the memory they hold there; return whether there were any."""
        ended: list[RefereeClient] = []
        with self._changed:
            for each in self._problems.values():
                ended += [one for one in each.idle if is_meant(one.device)]
                each.idle = [one for one in each.idle if not is_meant(one.device)]
            self._tidy()
        for referee in ended:
            referee.close()
        return bool(ended)

    def close(self) -> None:
        """End all, and those that come back later."""
        with self._changed:
            self._closed = True
        self.dismiss(lambda device: True)

    def _left(self, key: str, *, opened: bool) -> _Problem:
        """The problem of one that is at work no more."""
        problem = self._problems[key]
        problem.at_work -= 1
        problem.opening -= opened
        self._changed.notify_all()
        return problem

    def _tidy(self) -> None:
        for key in [key for key, each in self._problems.items() if not each.idle and not each.at_work]:
            del self._problems[key]
