"""Processes started ahead, each handed over once: torch imported, no foreign code seen.

Those under no tool have opened their device.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kernelwright.evaluator.driver.policy import CORES_EACH, SETTLE_S, STOCK, TOOL_STOCK
from kernelwright.evaluator.driver.processes.process_launcher import ProcessLauncher, WorkerHandle
from kernelwright.evaluator.host import trace
from kernelwright.evaluator.ipc.channel import ChannelError
from kernelwright.evaluator.schema.errors import EvaluatorError


class WarmPool:
    """A stock of processes of one kind; usable from any thread."""

    def __init__(self, make: Callable[[], WorkerHandle], *, stock: int) -> None:
        self._make = make
        self._stock = stock
        self._ready: list[WorkerHandle] = []
        self._coming = 0
        self._wanted = 0
        self._most = max(stock, len(os.sched_getaffinity(0)) // CORES_EACH)
        self._closed = False
        self._changed = threading.Condition()

    def take(self, *, wait: bool) -> WorkerHandle | None:
        """One that is ready or, with `wait`, about to be; None tells the caller to start its own.

        Never wait while holding the device: what is coming may need it first.
        """
        with self._changed:
            self._wanted = max(0, self._wanted - 1)
            while not self._closed:
                while self._ready:
                    worker = self._ready.pop(0)
                    if worker.sandboxed.poll() is None:
                        return worker
                    worker.discard()
                if not (wait and self._coming):
                    break
                self._changed.wait()
        return None

    def expect(self, count: int) -> None:
        """Begin to start what will be taken soon, all at once and beyond the stock, where cores allow."""
        with self._changed:
            self._wanted += count
        self.replenish()

    def keep(self, stock: int) -> None:
        """Hold at least so many from now on."""
        with self._changed:
            self._stock = max(self._stock, stock)
            self._most = max(self._most, stock)

    def replenish(self) -> None:
        """Fill the stock up, without waiting for that."""
        with self._changed:
            stock = min(self._stock + self._wanted, self._most)
            missing = 0 if self._closed else max(0, stock - len(self._ready) - self._coming)
            self._coming += missing
        for _ in range(missing):
            threading.Thread(target=self._add, name="warm-up", daemon=True).start()

    def drain(self) -> None:
        """End all that wait, until something is taken again."""
        with self._changed:
            ready, self._ready = self._ready, []
        for one in ready:
            one.discard()

    def close(self) -> None:
        """End all that wait; what is still starting ends itself, and `settle` waits for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.drain()

    def settle(self) -> None:
        """After `close` and the launcher's, which ends what was starting: wait until all have noticed."""
        with self._changed:
            self._changed.wait_for(lambda: self._coming == 0, timeout=SETTLE_S)

    def _add(self) -> None:
        """Start one; what goes wrong shows again, and is raised, where a process is started on demand."""
        made: WorkerHandle | None = None
        with suppress(EvaluatorError, ChannelError, OSError), trace.span(trace.new_track("ahead"), "start"):
            made = self._make()
        with self._changed:
            if made is not None and not self._closed:
                self._ready.append(made)
                made = None
        if made is not None:
            made.discard()
        with self._changed:
            self._coming -= 1
            self._changed.notify_all()


class WarmPools:
    """The warm pools of every kind of process an evaluator needs."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str, str | None], WarmPool] = {}
        """By device, kind and tool."""
        self._guard = threading.Lock()

    def of(self, launcher: ProcessLauncher) -> WarmPool:
        """The pool of a launcher's kind."""
        stock = STOCK[launcher.device.partition(":")[0]]
        if launcher.device == "cpu" and not launcher.config.measure:
            stock = 1  # nobody will ask for a baseline
        pool = self._pool(launcher, None, launcher.start_ahead, stock)
        pool.keep(stock)
        return pool

    def of_tool(self, launcher: ProcessLauncher, tool: str) -> WarmPool:
        """The pool of processes under a sanitizer, in which importing torch takes seconds."""
        start = partial(launcher.start, "sanitized", tool=tool)
        return self._pool(launcher, tool, start, TOOL_STOCK)

    def _pool(
        self, launcher: ProcessLauncher, tool: str | None, make: Callable[[], WorkerHandle], stock: int
    ) -> WarmPool:
        key = launcher.device, launcher.kind, tool
        with self._guard:
            if key not in self._pools:
                self._pools[key] = WarmPool(make, stock=stock)
            return self._pools[key]

    def drain_gpus(self) -> None:
        """End what waits with a GPU open."""
        for (device, *_), pool in self._all():
            if device != "cpu":
                pool.drain()

    def close(self) -> None:
        """End them all."""
        for _, pool in self._all():
            pool.close()

    def settle(self) -> None:
        """Wait until nothing is starting any more."""
        for _, pool in self._all():
            pool.settle()

    def _all(self) -> list[tuple[tuple[str, str, str | None], WarmPool]]:
        with self._guard:
            return list(self._pools.items())
