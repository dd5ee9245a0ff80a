"""Requests to one worker and its answers, within its evaluation's time; passes on the builds it asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kernelwright.evaluator.analysis.sanitizer_words import words_of_code
from kernelwright.evaluator.building.build_request import InvalidRequest, parse_request
from kernelwright.evaluator.ipc import driver_requests
from kernelwright.evaluator.ipc.channel import (
    Channel,
    ChannelClosed,
    ChannelGarbled,
    ChannelTimeout,
    JsonObject,
    encoded,
)
from kernelwright.evaluator.ipc.contestant_messages import Built, Failed, RequestBuild
from kernelwright.evaluator.ipc.messages import A_co, M, Request, answers_to, decode
from kernelwright.evaluator.referee.worker.candidate_failure import (
    BuildTally,
    CandidateFailed,
    death_of,
    failure_of,
)
from kernelwright.evaluator.referee.worker.driver_link import DriverLink, ProcessFreezer
from kernelwright.evaluator.schema.evaluation import Status


class WorkerChannel:
    """The conversation with one worker; nothing it says is believed.

    Every method that sends or receives raises `CandidateFailed` where the process failed, died, hung, or does
    not speak the protocol.
    """

    def __init__(self, channel: Channel, driver: DriverLink, process: int) -> None:
        self._channel = channel
        self._driver = driver
        self.id = process
        self._deadline = float("inf")
        self._paused_s = 0.0
        """Seconds of pauses that its time was extended by."""
        self.builds = BuildTally()
        self.lost = False
        """Nothing more can be asked of the process."""
        self.failed = False
        """The process said that it could not do what it was asked."""
        self.frozen = False
        """Every task of the process is stopped."""
        self._freezer: ProcessFreezer | None = None
        """Stops it without the driver, where that is possible."""
        self.freezing_ms = 0.0
        """Waited in all until it stood still, which lasts as long as its system calls do."""

    def limit(self, total_s: float) -> None:
        """Leave the process so many seconds from now on, for everything; earlier pauses buy it none."""
        self._paused_s = self._driver.paused_s()
        self._deadline = time.monotonic() + total_s

    def extend(self, seconds: float) -> None:
        self._deadline += seconds

    def forget_failure(self) -> None:
        """Begin to look anew for failures."""
        self.failed = False

    def ask(self, request: Request[A_co], timeout_s: float, fds: Sequence[int] = ()) -> A_co:
        return self.post(request, timeout_s, fds)()

    def post(self, request: Request[A_co], timeout_s: float, fds: Sequence[int] = ()) -> Callable[[], A_co]:
        """Send a request; return what waits for its answer, before which nothing else may be asked."""
        self.send(encoded(request.to_json()), fds)
        return lambda: self.read(self.receive(timeout_s), *answers_to(type(request)))

    def send(self, line: bytes, fds: Sequence[int] = ()) -> None:
        try:
            self._channel.send_line(line, fds)
        except (ChannelClosed, ChannelTimeout):
            raise self._dead() from None

    def speaks(self, timeout_s: float) -> bool:
        """Wait until a message begins to arrive; False where none does in time."""
        return self._channel.speaks(timeout_s)

    def read(self, received: JsonObject, *kinds: type[M]) -> M:
        """The answer that a received object is."""
        try:
            answer = decode(received, Failed, *kinds)
        except ChannelGarbled as error:
            raise self._garbled(error) from None
        if isinstance(answer, Failed):
            self.failed = True
            raise failure_of(answer, self.builds)
        return answer  # type: ignore[return-value]  # of one of the kinds, since it is no `Failed`

    def receive(self, timeout_s: float) -> JsonObject:
        """The next message, not decoded yet; builds are passed on, and their time is not the process's."""
        deadline = time.monotonic() + timeout_s
        while True:
            received = self._next(deadline, timeout_s)
            if received.get("op") != RequestBuild.op:
                return received
            built = self._build(received)
            self.builds.note(built)
            self._deadline += built.waited_s
            deadline += built.waited_s + built.build_s
            answer = Built(ok=built.ok, path=built.path, module_name=built.module_name, log=built.log)
            self.send(encoded(answer.to_json()))

    def freeze(self) -> None:
        """Stop every task of the process, unless it is stopped."""
        if not self.frozen:
            began = time.perf_counter()
            if self._freezer is None or not self._freezer.freeze():
                self._driver.ask(driver_requests.Freeze(id=self.id))
            self.frozen = True
            self.freezing_ms += (time.perf_counter() - began) * 1e3

    def thaw(self) -> None:
        """Let it run, unless it runs."""
        if self.frozen:
            if self._freezer is None or not self._freezer.thaw():
                self._driver.ask(driver_requests.Thaw(id=self.id))
            self.frozen = False

    def _next(self, deadline: float, timeout_s: float) -> JsonObject:
        while True:
            began = time.monotonic()
            try:
                return self._channel.receive(max(0.0, min(deadline, self._deadline) - began))
            except ChannelTimeout:
                paused_s = self._paused_since(began)
            except ChannelGarbled as error:
                raise self._garbled(error) from None
            except ChannelClosed:
                raise self._dead() from None
            if paused_s <= 0:
                self.lost = True
                if deadline <= self._deadline:
                    raise CandidateFailed(Status.TIMED_OUT, f"no answer within {timeout_s:.0f} s")
                raise CandidateFailed(Status.TIMED_OUT, "the evaluation's time is used up")
            deadline += paused_s

    def _paused_since(self, began: float) -> float:
        """Extend its time by pauses not allowed for yet; return what of them may lie after a time."""
        paused_s = self._driver.paused_s()
        more, self._paused_s = paused_s - self._paused_s, paused_s
        self._deadline += more
        return min(more, time.monotonic() - began)

    def _build(self, received: JsonObject) -> driver_requests.BuildFinished:
        """The driver's answer to a build request; it sees none that is not well formed."""
        try:
            request = decode(received, RequestBuild).request
            wanted = parse_request(request)
        except ChannelGarbled as error:
            raise self._garbled(error) from None
        except InvalidRequest as error:
            return driver_requests.BuildFinished(ok=False, log=f"not a valid build: {error}")
        for text in (*wanted.cpp_sources, *wanted.cuda_sources, *wanted.files.values()):
            self.builds.sanitizer_words.update(word for _, word in words_of_code(text))
        return self._driver.ask(driver_requests.BuildLibrary(id=self.id, request=request))

    def _dead(self) -> CandidateFailed:
        self.lost = True
        return death_of(self._driver.ask(driver_requests.Kill(id=self.id, ended=True)))

    def _garbled(self, error: ChannelGarbled) -> CandidateFailed:
        self.lost = True
        return CandidateFailed(Status.TAMPERED, f"the channel carried something else than answers: {error}")
