"""Starting sandboxes: skeleton of the public interface, replaced within the hour."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from evaluator.evaluation import SandboxReport
from evaluator.sandbox.policy import ExitReport, SandboxPolicy


class Sandboxed:
    """One running program and everything it starts."""

    pid: int
    """The process to wait for, as this process sees it."""
    report: SandboxReport

    def poll(self) -> ExitReport | None:
        """How it ended, or None while it runs."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> ExitReport | None:
        """Wait for its end; None when `timeout_s` ran out first."""
        raise NotImplementedError

    def kill(self) -> ExitReport:
        """Kill every process of the tree, wait until all are gone, and clean up; harmless when repeated."""
        raise NotImplementedError

    def freeze(self) -> None:
        """Stop every task of the tree; returns when all have stopped."""
        raise NotImplementedError

    def thaw(self) -> None:
        """Let a frozen tree run again."""
        raise NotImplementedError

    def output(self) -> str:
        """What it printed so far: head and tail, control characters escaped; never evidence."""
        raise NotImplementedError

    def tasks(self) -> int:
        """Live tasks (processes and threads) of the tree."""
        raise NotImplementedError


class Launcher:
    """Starts sandboxed programs and ends every one of them when closed; usable from any thread."""

    def start(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        *,
        fds: tuple[int, ...] = (),
        output_bytes: int = 262144,
    ) -> Sandboxed:
        """Start a program; `fds` keep their numbers inside.

        Raises:
            MachineError: the tier does not work here, or the program cannot be executed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Kill everything it started."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
