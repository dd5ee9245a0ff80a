"""Takes evaluations in, hands them to workers in order, and tells whoever waits how they ended.

The store is the truth: memory holds the ids that wait, those that run, and whoever waits for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kernelwright.agent.records.strict_json import strict_json
from kernelwright.agent.service.drain_rate import DrainRate
from kernelwright.agent.service.metrics import ServiceMetrics
from kernelwright.agent.service.recent_entries import RecentEntries
from kernelwright.agent.service.store import State, Store, StoredEvaluation, StoreError
from kernelwright.agent.service.submission import Content
from kernelwright.agent.service.waiters import Waiters
from kernelwright.evaluator import CancelToken, Evaluation, Stage, find_backend

MOST_STARTS: Final = 3
"""Times an evaluation is begun whose service dies under it before it is given up."""
_PATIENCE_S: Final = 2.0
"""Before a disk that took nothing is tried again."""


class QueuedEvaluation(StrEnum):
    """What became of a submission."""

    ACCEPTED = "accepted"
    JOINED = "joined"
    """The same content waits or runs."""
    KNOWN = "known"
    """The same content has a verdict."""


class QueueFull(Exception):
    """No place in the queue."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the queue is full; ask again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Draining(Exception):
    """The service is ending and accepts nothing."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a submission."""

    taken: QueuedEvaluation
    entry: StoredEvaluation


@dataclass(slots=True, eq=False)
class Work:
    """One evaluation in a worker's hands."""

    id: str
    content: Content
    stop: CancelToken = field(default_factory=CancelToken)
    begun: float = field(default_factory=time.monotonic)
    stage: Stage | None = None
    is_dropped: bool = False
    """Cancelled: whatever comes of it is not wanted."""

    def enter(self, stage: Stage) -> None:
        """Note how far it got."""
        self.stage = stage


@dataclass(frozen=True, slots=True)
class Standing:
    """An evaluation, and what only this process knows of it."""

    entry: StoredEvaluation
    ahead: int | None = None
    """Evaluations that come first, while it is queued."""
    stage: Stage | None = None


class EvaluationQueue:
    """One service's evaluations. Usable from any thread."""

    def __init__(
        self, store: Store, *, judge: str, workers: Mapping[str, int], places: int, recent_bytes: int
    ) -> None:
        """Put back into the queue what the last service left; `workers` are counts by kind of device.

        Raises:
            StoreError: the disk takes nothing.
        """
        self.measures = ServiceMetrics(queued=lambda: self.queued, running=lambda: self.running)
        self._store = store
        self._judge = judge
        self._places = places
        self._pace = DrainRate(sum(workers.values()))
        self._recent = RecentEntries(recent_bytes)
        self._waiters = Waiters()
        self._change = threading.Condition()
        self._queues: dict[str, OrderedDict[str, None]] = {kind: OrderedDict() for kind in workers}
        self._at_work: dict[str, Work] = {}
        self._draining = False
        for entry in store.unfinished():
            self._recover(entry)

    @property
    def queued(self) -> int:
        """Evaluations that wait."""
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        """Evaluations in the hands of workers."""
        return len(self._at_work)

    @property
    def is_draining(self) -> bool:
        """Whether nothing more is accepted or begun."""
        return self._draining

    def accept(self, content: Content, *, fresh: bool = False) -> Receipt:
        """Take an evaluation in; it is on the disk when this returns.

        Raises:
            QueueFull, Draining, StoreError: nothing was accepted.
        """
        evaluation = content.id(self._judge)
        with self._change:
            known = self._find(evaluation)
            if known is not None and known.is_live:
                return self._received(QueuedEvaluation.JOINED, known)
            if known is not None and known.state is State.FINISHED and not fresh:
                return self._received(QueuedEvaluation.KNOWN, known)
            if self._draining:
                raise Draining("the service is ending; ask again once it is back")
            if self.queued >= self._places:
                self.measures.submitted("turned away")
                raise QueueFull(self._pace.retry_after_s())
            entry = self._store.enqueue(evaluation, content)
            self._recent.drop(evaluation)
            self._queues[_kind(entry)][evaluation] = None
            self._change.notify_all()
            return self._received(QueuedEvaluation.ACCEPTED, entry)

    def take(self, kind: str) -> Work | None:
        """The next evaluation for a kind of device, waited for; None once draining."""
        queue = self._queues[kind]
        with self._change:
            while not self._draining:
                if not queue:
                    self._change.wait()
                    continue
                try:
                    work = self._begin(next(iter(queue)))
                except StoreError:
                    # It keeps its place, and the disk gets time to recover.
                    self._change.wait(_PATIENCE_S)
                    continue
                if work is not None:
                    return work
        return None

    def finish(self, work: Work, evaluation: Evaluation) -> None:
        """Record a verdict, unless nobody wants it any more.

        Raises:
            StoreError: the disk takes nothing and the service is ending; the next one judges again.
        """
        self._end(work, State.FINISHED, verdict=strict_json(evaluation), label=evaluation.status.value)

    def fail(self, work: Work, kind: str, message: str) -> None:
        """Record that nothing could be judged, and why; raises what `finish` raises."""
        self._end(work, State.FAILED, failure=message, kind=kind, label=f"failed: {kind}")

    def put_back(self, work: Work) -> None:
        """Leave an evaluation that was begun to the next service.

        Raises:
            StoreError: the disk takes nothing.
        """
        with self._change:
            if self._at_work.get(work.id) is work:
                self._store.put_back(work.id)
                del self._at_work[work.id]

    def cancel(self, evaluation: str) -> Standing | None:
        """End an evaluation that waits or runs; others stay as they are. None if there is none.

        Raises:
            StoreError: the disk takes nothing.
            MachineError: what runs cannot be killed; it counts as cancelled all the same.
        """
        with self._change:
            entry = self._find(evaluation)
            if entry is None or not entry.is_live:
                return Standing(entry) if entry else None
            ended = self._store.end(evaluation, State.CANCELLED)
            self._queues[_kind(entry)].pop(evaluation, None)
            work = self._at_work.pop(evaluation, None)
            if work is not None:
                work.is_dropped = True
            self._settle(ended)
        self.measures.ended("cancelled")
        if work is not None:
            work.stop.set()
        return Standing(ended)

    def look(self, evaluation: str) -> Standing | None:
        """An evaluation as it stands; None if it was never accepted, or is long gone."""
        with self._change:
            entry = self._find(evaluation)
            if entry is None:
                return None
            work = self._at_work.get(evaluation)
            ahead = None
            if entry.state is State.QUEUED:
                ahead = list(self._queues[_kind(entry)]).index(evaluation)
            return Standing(entry, ahead=ahead, stage=work.stage if work else None)

    async def wait(self, evaluation: str, seconds: float) -> Standing | None:
        """An evaluation once it is ended, or as it stands when the time is up or the service drains."""
        with self._waiters.waiting_for(evaluation) as ended:
            standing = await asyncio.to_thread(self.look, evaluation)
            if seconds == 0 or standing is None or not standing.entry.is_live or self._draining:
                return standing
            try:
                async with asyncio.timeout(seconds):
                    await ended.wait()
            except TimeoutError:
                pass
        return await asyncio.to_thread(self.look, evaluation)

    def drain(self) -> None:
        """Accept and begin nothing more; whoever waits is answered now."""
        with self._change:
            self._draining = True
            self._change.notify_all()
        self._waiters.wake()

    def stop(self) -> None:
        """End what runs; the next service begins it again.

        Raises:
            MachineError: something cannot be killed.
        """
        with self._change:
            running = list(self._at_work.values())
        for work in running:
            work.stop.set()

    def prune(self, older_than_s: float) -> int:
        """Forget evaluations that ended longer ago than this; returns how many.

        Raises:
            StoreError: the disk takes nothing.
        """
        with self._change:
            gone = self._store.prune(time.time() - older_than_s)
            for evaluation in gone:
                self._recent.drop(evaluation)
        return len(gone)

    def _received(self, taken: QueuedEvaluation, entry: StoredEvaluation) -> Receipt:
        self.measures.submitted(taken.value)
        return Receipt(taken, entry)

    def _find(self, evaluation: str) -> StoredEvaluation | None:
        entry = self._recent.get(evaluation)
        if entry is None:
            entry = self._store.find(evaluation)
            if entry is not None and not entry.is_live:
                self._recent.put(entry)
        return entry

    def _begin(self, evaluation: str) -> Work | None:
        """The first of its queue, which it leaves; None if its text is lost."""
        content = self._store.content(evaluation)
        if content is None:
            lost = "the text of the candidate is not in the state folder any more"
            entry = self._store.end(evaluation, State.FAILED, failure=lost, kind="evaluator")
            self._settle(entry)
        else:
            entry = self._store.begin(evaluation)
            self._at_work[evaluation] = Work(evaluation, content)
        del self._queues[_kind(entry)][evaluation]
        return self._at_work.get(evaluation)

    def _end(
        self,
        work: Work,
        state: State,
        *,
        label: str,
        verdict: str | None = None,
        failure: str | None = None,
        kind: str | None = None,
    ) -> None:
        seconds = time.monotonic() - work.begun
        with self._change:
            self._pace.ended(seconds)
            while not work.is_dropped:
                try:
                    entry = self._store.end(work.id, state, verdict=verdict, failure=failure, kind=kind)
                except StoreError:
                    if self._draining:
                        raise
                    self._change.wait(_PATIENCE_S)
                    continue
                del self._at_work[work.id]
                self._settle(entry)
                self.measures.ended(label, seconds)
                return

    def _settle(self, ended: StoredEvaluation) -> None:
        self._recent.put(ended)
        self._waiters.wake(ended.id)

    def _recover(self, entry: StoredEvaluation) -> None:
        kind, why = _kind(entry), ""
        if entry.starts >= MOST_STARTS:
            why = f"the service ended {entry.starts} times while this was judged"
        elif kind not in self._queues:
            why = f"this service has no {kind} device any more"
        if why:
            self._store.end(entry.id, State.FAILED, failure=why, kind="machine")
        else:
            self._queues[kind][entry.id] = None


def _kind(entry: StoredEvaluation) -> str:
    return find_backend(entry.backend).device
