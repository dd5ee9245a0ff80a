"""The referee's main loop: opens a problem once, then evaluates candidates until the driver hangs up."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from kernelwright.evaluator.devices import Device, is_device_full, open_device
from kernelwright.evaluator.devices.policy import UNUSED_BYTES
from kernelwright.evaluator.ipc import referee_messages as wire
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, JsonObject
from kernelwright.evaluator.ipc.driver_requests import Begin
from kernelwright.evaluator.ipc.messages import Dispatcher, Message, Request
from kernelwright.evaluator.ipc.model_init import apply_math
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.device_memory import shortage
from kernelwright.evaluator.referee.evaluate_candidate import EvaluationRequest, evaluate_candidate
from kernelwright.evaluator.referee.open_problem import OpenProblem
from kernelwright.evaluator.referee.policy import TRIALS_MEMORY_SHARE
from kernelwright.evaluator.referee.problem_check.inspection import (
    UNFIT,
    ProblemInspection,
    device_name,
    known_flaws,
)
from kernelwright.evaluator.referee.reference.flop_counter import count_problem_work
from kernelwright.evaluator.referee.reference.latency import fewer_threads
from kernelwright.evaluator.referee.reference.meta_shapes import describe, warm_up
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.schema.config import EvaluationConfig, Passes
from kernelwright.evaluator.schema.errors import DeviceFull, ProblemError


class RefereeServer:
    """State of one referee process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._problem: OpenProblem | None = None
        self.handlers: dict[type[Request[Any]], Callable[[Any], Message]] = {
            wire.Open: self._open,
            wire.EvaluateCandidate: self._evaluate,
            wire.SanitizeCandidate: self._sanitize,
            wire.InspectProblem: self._inspect,
            wire.DescribeProblem: self._inspect,
        }

    def serve(self) -> None:
        """Answer the driver until it hangs up."""
        dispatcher = Dispatcher(self.handlers)
        while True:
            try:
                answer = _answer(dispatcher, self._channel.receive())
            except ChannelClosed:
                return
            self._channel.send(answer.to_json())

    def _evaluate(self, asked: wire.EvaluateCandidate) -> wire.CandidateEvaluated:
        request = EvaluationRequest(asked.source, asked.compile_s, asked.others_evicted)
        return wire.CandidateEvaluated(**evaluate_candidate(self._opened(), request).to_json())

    def _sanitize(self, asked: wire.SanitizeCandidate) -> wire.Sanitized:
        found = self._opened().sanitize(asked.source)
        return wire.Sanitized(sanitization=found.model_dump(mode="json"))

    def _inspect(self, asked: wire.InspectProblem | wire.DescribeProblem) -> wire.ChildEnded:
        """Look at a problem in a child, which sends what it finds; say how it ended.

        What a problem breaks or changes dies with the child, and torch is imported once. Only sound in a
        process that has done nothing with torch yet: neither threads nor CUDA survive a fork.
        """
        if isinstance(asked, wire.DescribeProblem):
            warm_up()
        pid = os.fork()
        if pid == 0:
            _child(self._channel, asked)
        return wire.ChildEnded(code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def _opened(self) -> OpenProblem:
        if self._problem is None:
            raise RuntimeError("a candidate came before a problem was opened")
        return self._problem

    def _open(self, asked: wire.Open) -> wire.Opened:
        config = EvaluationConfig.model_validate(asked.config)
        torch.set_num_threads(asked.threads)
        apply_math(config.math.value)
        driver = DriverLink(self._channel)
        driver.hold(exclusive=False)
        device = open_device(asked.device)
        with _as_problem_error(asked.problem):
            flaws = self._prepare(asked, config, driver, device)
        return wire.Opened(
            flaws=flaws,
            device_name=device_name(device),
            torch=torch.__version__,
            cuda=torch.version.cuda or "",
            free_share=1.0 if asked.device == "cpu" else min(1.0, device.free_bytes() / device.total_bytes()),
        )

    def _prepare(
        self, asked: wire.Open, config: EvaluationConfig, driver: DriverLink, device: Device
    ) -> list[str]:
        """Work out all that does not depend on a candidate; returns the names of flaws seen on the way."""
        problem = asked.problem, asked.source, asked.overrides
        work = count_problem_work(*problem, dtype=config.dtype.value)
        why = shortage(work, device.free_bytes())
        if why:
            raise DeviceFull(f"problem {asked.problem}: {why}; choose smaller --shapes")
        reference = Reference(*problem, device=device.torch_device, dtype=config.dtype.value)
        secret = (
            random.Random(config.secret_seed) if config.secret_seed is not None else random.SystemRandom()
        )
        if config.passes is Passes.FORWARD_BACKWARD:
            reference.differentiate(secret.getrandbits(48))

        def pause() -> None:
            """Give much freed memory back, and let others time: opening takes seconds, and can wait."""
            device.synchronize()
            device.trim(above=UNUSED_BYTES)
            driver.hold(exclusive=False, anew=True)

        memory_bytes = int(device.free_bytes() * TRIALS_MEMORY_SHARE)
        with fewer_threads(reference):
            pool = TrialPool(
                reference, math=config.math.value, secret=secret, memory_bytes=memory_bytes, pause=pause
            )
        context = ProblemContext(
            driver=driver,
            device=device,
            reference=reference,
            overrides=asked.overrides,
            device_name=asked.device,
            threads=asked.threads,
            math=config.math.value,
            dtype=config.dtype.value,
            load_s=config.limits.load_s,
            keeps_state=pool.trace.keeps_state,
            operations=work.operations if work.complete else 0,
        )
        # Other referees of this device need the memory that opening took for a moment.
        device.trim()
        self._problem = OpenProblem(context, pool, config, secret, others_evicted=asked.others_evicted)
        # Flaws are a matter of outputs; gradients may well be constant, or summed in any order.
        flaws = known_flaws(reference, pool) if reference.backward is None else []
        pool.finish_opening()
        return flaws


def _answer(dispatcher: Dispatcher[Message], received: JsonObject) -> Message:
    """The answer to a request, whatever becomes of it, unless the driver is gone."""
    try:
        return dispatcher.handle(received)
    except DeviceFull as error:
        return wire.Refused(reason="device_full", text=str(error))
    except ProblemError as error:
        return wire.Refused(reason="problem", text=str(error))
    except ChannelClosed:
        raise
    except Exception as error:  # noqa: BLE001  (our own fault: the driver raises an EvaluatorError)
        if is_device_full(error):
            text = f"out of device memory; choose smaller --shapes, or fewer evaluations at once: {error}"
            return wire.Refused(reason="device_full", text=text)
        summary = traceback.format_exception_only(error)[-1].strip()
        return wire.Refused(reason="crash", text=f"{summary}\n{traceback.format_exc()}")


@contextlib.contextmanager
def _as_problem_error(problem: str) -> Iterator[None]:
    """Before a candidate is there, what cannot be worked out is the problem's fault."""
    try:
        yield
    except SystemExit as error:
        raise ProblemError(f"problem {problem} asks to end the process: {error!r}") from error
    except UNFIT as error:
        if is_device_full(error):
            raise
        line = traceback.format_exception_only(error)[-1].strip()
        raise ProblemError(f"problem {problem} cannot be judged here: {line}") from error


def _found(channel: Channel, asked: wire.InspectProblem | wire.DescribeProblem) -> wire.ProblemFound:
    torch.set_num_threads(asked.threads)
    driver = DriverLink(channel)
    if isinstance(asked, wire.InspectProblem):
        return wire.ProblemFound(found=ProblemInspection(driver, asked).vet())
    driver.ask(Begin())
    try:
        return wire.ProblemFound(found=describe(asked))
    except (ProblemError, SystemExit):
        # Judging says what is wrong with it; a prompt is asked without facts.
        return wire.ProblemFound(found={})


def _child(channel: Channel, asked: wire.InspectProblem | wire.DescribeProblem) -> NoReturn:
    code = 1
    try:
        channel.send(_found(channel, asked).to_json())
        code = 0
    except ChannelClosed:
        pass  # the driver has given up: nobody is left to tell
    except Exception:  # noqa: BLE001  (our own fault: the driver raises it as an EvaluatorError)
        channel.send(wire.Refused(reason="crash", text=traceback.format_exc()).to_json())
    finally:
        os._exit(code)


def main() -> None:
    """Serve the driver on the descriptor named on the command line."""
    RefereeServer(Channel.from_fd(int(sys.argv[1]))).serve()
