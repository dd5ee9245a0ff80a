"""A process under the referee's command: a contestant, or the baseline, by the same protocol."""

from __future__ import annotations

from kernelwright.evaluator.devices import Block, Device
from kernelwright.evaluator.ipc.contestant_messages import Attach, Listening, Setup
from kernelwright.evaluator.ipc.driver_requests import Kill, Peek, Start
from kernelwright.evaluator.ipc.messages import A_co, Request
from kernelwright.evaluator.referee.worker.candidate_failure import BuildTally
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.policy import START_S
from kernelwright.evaluator.referee.worker.timed_run import CallRunner, Freezer, RunResult, TimedRun
from kernelwright.evaluator.referee.worker.worker_channel import WorkerChannel
from kernelwright.evaluator.schema.errors import ProblemError


class WorkerProcess:
    """One sandboxed process and the memory shared with it.

    Whatever is asked of it raises `CandidateFailed` where the process failed, died, hung, or does not speak
    the protocol.
    """

    def __init__(self, driver: DriverLink, device: Device, start: Start, *, compile_s: float = 0.0) -> None:
        """Start a process; `device` is where shared memory lies.

        `compile_s` is what a model's first call may take on top, where that call compiles its kernels.
        """
        self._driver = driver
        self._device = device
        self.role = start.role
        started, channel = driver.start(start)
        self.id = started.id
        self.compile_s = compile_s
        self.blocks: list[Block] = []
        self._is_set_up = started.set_up
        self._channel = WorkerChannel(channel, driver, self.id)
        self._freezer = Freezer(driver, self.id)
        self._runner = CallRunner(self._channel, self._freezer, role=start.role, compile_s=compile_s)

    @property
    def lost(self) -> bool:
        """True once nothing more can be asked of the process."""
        return self._channel.lost

    @property
    def failed(self) -> bool:
        """True once it said that it could not do what it was asked."""
        return self._channel.failed

    @property
    def builds(self) -> BuildTally:
        """What came of the builds it asked for."""
        return self._channel.builds

    @property
    def frozen(self) -> bool:
        """True while every task of it is stopped."""
        return self._freezer.frozen

    def setup(self, *, device: str, threads: int, math: str, sharing: str | None = None) -> None:
        """Once it has started, choose device, threads and precision flags; unless that was done."""
        if self._is_set_up:
            return
        self._channel.read(self._channel.receive(START_S), Listening)
        self.ask(Setup(device=device, threads=threads, math=math, sharing=sharing), START_S)

    def attach(self, sizes: list[int]) -> list[int]:
        """Allocate blocks for this process alone; returns their indices."""
        blocks = [self._device.allocate(size) for size in sizes]
        descriptors = [block.descriptor() | {"fds": len(block.fds())} for block in blocks]
        first = len(self.blocks)
        self.blocks += blocks
        fds = [fd for block in blocks for fd in block.fds()]
        self._channel.ask(Attach(blocks=descriptors), START_S, fds)
        return list(range(first, len(self.blocks)))

    def ask(self, request: Request[A_co], timeout_s: float) -> A_co:
        """Send a request and return its answer; builds that the process asks for meanwhile are passed on."""
        return self._channel.ask(request, timeout_s)

    def run(
        self,
        layout: str,
        *,
        model: str,
        first: int,
        count: int,
        timeout_s: float,
        timed: TimedRun | None = None,
    ) -> RunResult:
        """Run prepared calls, and stop our clock at the answer; then collect outputs.

        Raises:
            ProblemError: the reference's outputs do not fit where they fitted when it was opened.
        """
        ran = self._runner.run(
            layout, model=model, first=first, count=count, timeout_s=timeout_s, timed=timed
        )
        if ran.complaint and self.role == "baseline":
            raise ProblemError(f"the reference answers differently shaped from draw to draw: {ran.complaint}")
        return ran

    def begin_model(self, model: str, *, restores: bool) -> None:
        """A model of this name was constructed: its next call is its first.

        With `restores`, what calls write into its buffers is undone after each run: the reference writes too.
        """
        self._runner.begin_model(model, restores=restores)

    def renew_arguments(self) -> None:
        """Make arguments anew for each run from now on: for gradients they may belong to no graph yet."""
        self._runner.renew_arguments()

    def limit(self, total_s: float) -> None:
        """Leave the process so many seconds from now on, for everything."""
        self._channel.limit(total_s)

    def extend(self, seconds: float) -> None:
        """Leave it so many seconds more."""
        self._channel.extend(seconds)

    def forget_failure(self) -> None:
        """Begin to look anew for failures."""
        self._channel.forget_failure()

    def freeze(self) -> None:
        """Stop every task of the process."""
        self._freezer.freeze()

    def thaw(self) -> None:
        """Let it run again."""
        self._freezer.thaw()

    def peek(self, places: list[tuple[int, int]]) -> list[bytes] | None:
        """Read memory at addresses of the process, so many bytes each; None where the system forbids it.

        Where no memory is mapped, nothing is read.
        """
        found = self._driver.ask(Peek(id=self.id, places=places)).found
        return None if found is None else [bytes.fromhex(text) for text in found]

    def close(self) -> None:
        """Kill the process with everything it started and free what was shared with it."""
        self._channel.close()
        self._driver.ask(Kill(id=self.id, ended=False))
        while self.blocks:
            self.blocks.pop().close()
