"""Cancels an evaluation from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kernelwright.evaluator.sandbox import SandboxedProcess
from kernelwright.evaluator.schema.errors import Cancelled


class CancelToken:
    """One evaluation's stop switch; once set it stays so. Usable from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_set = False
        self._referee: SandboxedProcess | None = None

    @property
    def is_set(self) -> bool:
        """True once the evaluation is to end."""
        return self._is_set

    def check(self) -> None:
        """Raise `Cancelled` once the evaluation is to end."""
        if self._is_set:
            raise Cancelled("the evaluation was stopped; nothing is scored")

    def set(self) -> None:
        """Kill the referee: `evaluate` raises Cancelled, after a build or a wait. May raise MachineError."""
        with self._guard:
            self._is_set = True
            if self._referee is not None:
                self._referee.kill()

    @contextmanager
    def reaching(self, referee: SandboxedProcess) -> Iterator[None]:
        """Let the switch kill this referee meanwhile; raises Cancelled once set, whatever went wrong."""
        with self._guard:
            if not self._is_set:
                self._referee = referee
        try:
            if not self._is_set:
                yield
        except Exception:
            if not self._is_set:
                raise
        finally:
            # Waits for a kill under way, so that a killed referee is never taken for a live one.
            with self._guard:
                self._referee = None
        self.check()
