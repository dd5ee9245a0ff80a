"""The queue of a service: accepts evaluations, hands them to workers in order, and wakes waiting clients.

The store is the truth: memory holds only the ids that wait, those that run, and the clients that wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from kernelwright.agent.evaluation.evaluation_site import EvaluationFailure
from kernelwright.agent.service.metrics import DrainRate, ServiceMetrics
from kernelwright.agent.service.policy import DISK_RETRY_S, DRAINING_WAIT_S, MOST_RESULTS, STARTS
from kernelwright.agent.service.store import EvaluationState, Store, StoredEvaluation, StoreError
from kernelwright.agent.service.submission import Content
from kernelwright.evaluator import CancelToken, Evaluation, Stage, find_backend


class QueueFull(Exception):
    """No place in the queue."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the queue is full; ask again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class NotSubmitted(Exception):
    """The client has not submitted the evaluation, or has withdrawn it."""


class NotKnown(Exception):
    """The content is neither queued nor running, and has no result."""


class Draining(Exception):
    """The service is ending and accepts nothing."""


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """An evaluation, with the facts that only this process knows."""

    entry: StoredEvaluation
    ahead: int | None = None
    """Evaluations that come first, while it is queued."""
    stage: Stage | None = None
    closing: bool = False
    """True once the service ends: what is queued is left to the next one."""

    @property
    def progress(self) -> str:
        """Its state and stage, as clients send them back in `seen`."""
        return f"{self.entry.state}/{self.stage}" if self.stage else self.entry.state.value


@dataclass(slots=True, eq=False)
class RunningEvaluation:
    """One evaluation of a worker."""

    id: str
    content: Content
    changed: Callable[[], None]
    """Called once its stage has changed."""
    stop: CancelToken = field(default_factory=CancelToken)
    begun: float = field(default_factory=time.monotonic)
    stage: Stage | None = None
    is_dropped: bool = False
    """Cancelled: its result is not wanted."""

    def enter(self, stage: Stage) -> None:
        """Note its stage."""
        self.stage = stage
        self.changed()


class EvaluationQueue:
    """The evaluations of one service; StoreError says that the disk takes nothing. Usable from any thread."""

    def __init__(self, store: Store, *, evaluator: str, workers: Mapping[str, int], places: int) -> None:
        """Queue again the evaluations that the last service left; `workers` are counts by kind of device."""
        self.measures = ServiceMetrics(queued=lambda: self.queued, running=lambda: self.running)
        self._store = store
        self._evaluator = evaluator
        self._places = places
        self._pace = DrainRate(sum(workers.values()))
        self._guard = threading.Lock()
        self._changed: dict[str, Future[None]] = {}
        """Set once an evaluation changes, for the clients that wait for that."""
        self._change = threading.Condition()
        self._queues: dict[str, OrderedDict[str, None]] = {kind: OrderedDict() for kind in workers}
        self._at_work: dict[str, RunningEvaluation] = {}
        self.is_draining = False
        """True once nothing more is accepted or begun."""
        self._has_hung_up = False
        for entry in store.unfinished():
            self._recover(entry)

    @property
    def queued(self) -> int:
        """Evaluations that wait."""
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        """Evaluations at work."""
        return len(self._at_work)

    def accept(
        self, content: Content, *, client: str = "", fresh: bool = False, only_known: bool = False
    ) -> EvaluationView:
        """Accept an evaluation; it is on the disk when this returns.

        The evaluation that this returns is live, unless the content has a result already. With `fresh`, such
        content is evaluated again, until `MOST_RESULTS` results count.

        Raises:
            NotKnown, QueueFull, Draining, StoreError: nothing was accepted.
        """
        evaluation = content.id(self._evaluator)
        with self._change:
            known = self._store.find(evaluation)
            if known is not None and known.is_live:
                self._store.join(evaluation, client)
                return self._received("joined", known)
            again = fresh and known is not None and sum(one.counts for one in known.results) < MOST_RESULTS
            if known is not None and known.state is EvaluationState.FINISHED and not again:
                return self._received("known", known)
            if only_known:
                raise NotKnown("this content is neither queued nor running, and has no result")
            if self.is_draining:
                raise Draining("the service is ending; ask again once it is back")
            if self.queued >= self._places:
                self.measures.submissions.labels("turned away").inc()
                raise QueueFull(self._pace.retry_after_s())
            entry = self._store.enqueue(evaluation, content, client)
            self._queues[_kind(entry)][evaluation] = None
            self._change.notify_all()
            return self._received("accepted", entry)

    def take(self, kind: str) -> RunningEvaluation | None:
        """Wait for the next evaluation for a kind of device; None once draining."""
        queue = self._queues[kind]
        with self._change:
            while not self.is_draining:
                if not queue:
                    self._change.wait()
                    continue
                try:
                    work = self._begin(next(iter(queue)))
                except StoreError:
                    # It keeps its place, and the disk gets time to recover.
                    self._change.wait(DISK_RETRY_S)
                    continue
                if work is not None:
                    return work
        return None

    def finish(self, work: RunningEvaluation, outcome: Evaluation | EvaluationFailure) -> None:
        """Record a result, or why there is none, unless it was cancelled; raises only at the end."""
        seconds = time.monotonic() - work.begun
        label = outcome.status.value if isinstance(outcome, Evaluation) else f"failed: {outcome.kind}"
        with self._change:
            self._pace.ended(seconds)
            while not work.is_dropped:
                try:
                    entry = self._store.end(work.id, outcome)
                except StoreError:
                    if self.is_draining:
                        raise
                    self._change.wait(DISK_RETRY_S)
                    continue
                del self._at_work[work.id]
                self._wake([entry.id])
                self.measures.evaluations.labels(label).inc()
                self.measures.evaluation_s.observe(seconds)
                return

    def put_back(self, work: RunningEvaluation) -> None:
        """Leave an evaluation that was begun to the next service."""
        with self._change:
            if self._at_work.get(work.id) is work:
                self._store.put_back(work.id)
                del self._at_work[work.id]

    def cancel(self, evaluation: str, *, client: str = "") -> EvaluationView | None:
        """Withdraw a client's submission, and end a queued or running evaluation that no other client wants.

        One that has ended stays as it is; one with earlier results ends with those. None if there is none.

        Raises:
            NotSubmitted: the client does not want it.
            MachineError: it runs and cannot be killed; it counts as cancelled.
        """
        with self._change:
            entry = self._store.find(evaluation)
            if entry is None or not entry.is_live:
                return EvaluationView(entry) if entry else None
            left = self._store.leave(evaluation, client)
            if left is None:
                raise NotSubmitted("this token has not submitted that evaluation, or has withdrawn it")
            if left:
                return EvaluationView(entry)
            ended = self._store.end(evaluation)
            self._queues[_kind(entry)].pop(evaluation, None)
            work = self._at_work.pop(evaluation, None)
            if work is not None:
                work.is_dropped = True
            self._wake([ended.id])
        self.measures.evaluations.labels("cancelled").inc()
        if work is not None:
            work.stop.set()
        return EvaluationView(ended)

    def look(self, evaluation: str) -> EvaluationView | None:
        """The current state; None if it was never accepted, or was pruned."""
        with self._change:
            entry = self._store.find(evaluation)
            return self._view(entry) if entry else None

    def result(self, evaluation: str, number: int) -> str | None:
        """One result of a content, as JSON text, by its round; None if there is none."""
        return self._store.result(evaluation, number)

    async def wait(self, evaluation: str, seconds: float, seen: str | None = None) -> EvaluationView | None:
        """An evaluation once it has ended, or its state when the time is up.

        With `seen`, its state once its progress is another. In a service that drains, a queued one soon.
        """
        until = time.monotonic() + seconds
        while True:
            with self._guard:
                changed = self._changed.setdefault(evaluation, Future())
            view = await asyncio.to_thread(self.look, evaluation)
            left_s = until - time.monotonic()
            is_new = view is None or not view.entry.is_live or (seen is not None and view.progress != seen)
            if self.is_draining and view is not None and view.entry.state is EvaluationState.QUEUED:
                # Not at once: a client may ask again at once.
                await asyncio.sleep(min(max(left_s, 0.0), DRAINING_WAIT_S))
                is_new = True
            if is_new or left_s <= 0 or self._has_hung_up:
                # Others that wait for it look again and wait on.
                self._wake([evaluation])
                return view
            # Shielded: one client that disconnects must not end the wait of others.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(changed)), left_s)

    def drain(self) -> None:
        """Accept and begin nothing more; clients that wait for a queued evaluation are answered soon."""
        with self._change:
            self.is_draining = True
            self._change.notify_all()
        self._wake(list(self._changed))

    def hang_up(self) -> None:
        """Answer all waiting clients now."""
        self._has_hung_up = True
        self._wake(list(self._changed))

    def stop(self) -> None:
        """Stop running evaluations, for the next service; raises MachineError where one cannot be killed."""
        with self._change:
            running = list(self._at_work.values())
        for work in running:
            work.stop.set()

    def prune(self, older_than_s: float) -> int:
        """Remove evaluations that ended longer ago than this; return their number."""
        with self._change:
            return len(self._store.prune(time.time() - older_than_s))

    def _received(self, taken: str, entry: StoredEvaluation) -> EvaluationView:
        self.measures.submissions.labels(taken).inc()
        return self._view(entry)

    def _view(self, entry: StoredEvaluation) -> EvaluationView:
        work, ahead = self._at_work.get(entry.id), None
        queue = self._queues.get(_kind(entry), OrderedDict())
        # What is left to the next service is in no queue.
        if entry.state is EvaluationState.QUEUED and entry.id in queue:
            # The last one is looked at most, by whoever submitted it.
            ahead = len(queue) - 1 if next(reversed(queue)) == entry.id else list(queue).index(entry.id)
        return EvaluationView(
            entry, ahead=ahead, stage=work.stage if work else None, closing=self.is_draining
        )

    def _wake(self, evaluations: Sequence[str]) -> None:
        with self._guard:
            waiting = [self._changed.pop(one) for one in evaluations if one in self._changed]
        for changed in waiting:
            changed.set_result(None)

    def _begin(self, evaluation: str) -> RunningEvaluation | None:
        """The first of its queue, which it leaves; None if its text is lost."""
        content = self._store.content(evaluation)
        if content is None:
            lost = "the text of the candidate is not in the state folder any more"
            entry = self._store.end(evaluation, EvaluationFailure(kind="evaluator", message=lost))
            self._wake([entry.id])
        else:
            entry = self._store.begin(evaluation)
            self._at_work[evaluation] = RunningEvaluation(
                evaluation, content, changed=lambda: self._wake([evaluation])
            )
        del self._queues[_kind(entry)][evaluation]
        self._wake([evaluation])
        return self._at_work.get(evaluation)

    def _recover(self, entry: StoredEvaluation) -> None:
        kind, why = _kind(entry), ""
        if entry.starts >= STARTS:
            why = f"the service ended {entry.starts} times during this evaluation"
        elif kind not in self._queues:
            why = f"this service has no {kind} device any more"
        if why:
            self._store.end(entry.id, EvaluationFailure(kind="machine", message=why))
        else:
            self._queues[kind][entry.id] = None


def _kind(entry: StoredEvaluation) -> str:
    return find_backend(entry.backend).device
