"""The referee's main loop: opens a problem once, then judges candidates until the driver hangs up."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Final

import torch

from kernelwright.evaluator.devices import Device, open_device
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, Message
from kernelwright.evaluator.ipc.precision import apply_math
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.evaluate_candidate import CandidateEvaluator
from kernelwright.evaluator.referee.problem_check.forked import look_apart
from kernelwright.evaluator.referee.problem_check.inspection import UNFIT, known_flaws, lacking
from kernelwright.evaluator.referee.reference.flop_counter import weigh
from kernelwright.evaluator.referee.reference.latency import fewer_threads
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.referee.worker.worker_process import DriverLink
from kernelwright.evaluator.schema.config import EvaluationConfig, Passes
from kernelwright.evaluator.schema.errors import DeviceFull, ProblemError

_TRIALS_SHARE: Final = 0.1
"""Of a device's free memory, for trials kept solved: contestants need the rest."""


class RefereeServer:
    """State of one referee process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._judge: CandidateEvaluator | None = None

    def serve(self) -> None:
        """Answer the driver until it hangs up."""
        while True:
            try:
                message = self._channel.receive()
            except ChannelClosed:
                return
            try:
                reply = self._answer(message)
            except ProblemError as error:
                full = isinstance(error, DeviceFull)
                reply = {"op": "device_full" if full else "problem_error", "message": str(error)}
            except torch.OutOfMemoryError as error:
                text = f"out of device memory; choose smaller --shapes, or fewer evaluations at once: {error}"
                reply = {"op": "device_full", "message": text}
            except ChannelClosed:
                return
            except Exception as error:  # noqa: BLE001  (our own fault: the driver raises an EvaluatorError)
                summary = traceback.format_exception_only(error)[-1].strip()
                reply = {"op": "crashed", "message": f"{summary}\n{traceback.format_exc()}"}
            self._channel.send(reply)

    def _answer(self, message: Message) -> dict[str, Any]:
        if message["op"] == "open":
            return self._open(message)
        if message["op"] in ("vet", "describe"):
            return look_apart(self._channel, message)
        if self._judge is None:
            raise RuntimeError("asked to judge before a problem was opened")
        if message["op"] == "sanitize":
            found = self._judge.sanitize(message["source"])
            return {"op": "sanitized", "sanitization": found.model_dump(mode="json")}
        compile_s, alone = float(message["compile_s"]), bool(message["alone"])
        return {"op": "judged"} | self._judge.judge(message["source"], compile_s=compile_s, alone=alone)

    def _open(self, message: Message) -> dict[str, Any]:
        config = EvaluationConfig.model_validate(message["config"])
        torch.set_num_threads(message["threads"])
        apply_math(config.math.value)
        driver = DriverLink(self._channel)
        driver.call("hold", exclusive=False)
        device = open_device(message["device"])
        with _blaming(message["problem"]):
            flaws = self._prepare(message, config, driver, device)
        return {"op": "opened", "flaws": flaws, **_facts(device.torch_device)}

    def _prepare(
        self, message: Message, config: EvaluationConfig, driver: DriverLink, device: Device
    ) -> list[str]:
        """Work out all that does not depend on a candidate; returns the names of flaws seen on the way."""
        problem = message["problem"], message["source"], message["overrides"]
        work = weigh(*problem, dtype=config.dtype.value)
        why = lacking(work, device.free_bytes())
        if why:
            raise DeviceFull(f"problem {message['problem']}: {why}; choose smaller --shapes")
        reference = Reference(*problem, device=device.torch_device, dtype=config.dtype.value)
        secret = (
            random.Random(config.secret_seed) if config.secret_seed is not None else random.SystemRandom()
        )
        if config.passes is Passes.FORWARD_BACKWARD:
            reference.differentiate(secret.getrandbits(48))

        def pause() -> None:
            """Let those time who wait for that: opening takes seconds, and the next step is as good later."""
            device.synchronize()
            device.trim()  # they may need the memory
            driver.call("hold", exclusive=False, anew=True)

        memory_bytes = int(device.free_bytes() * _TRIALS_SHARE)
        with fewer_threads(reference):
            pool = TrialPool(
                reference, math=config.math.value, secret=secret, memory_bytes=memory_bytes, pause=pause
            )
        ground = ProblemContext(
            driver=driver,
            device=device,
            reference=reference,
            overrides=message["overrides"],
            device_name=message["device"],
            threads=message["threads"],
            math=config.math.value,
            dtype=config.dtype.value,
            load_s=config.limits.load_s,
            keeps_state=pool.trace.keeps_state,
            operations=work.operations if work.complete else 0,
        )
        # What oracles needed for a moment, other referees of this device need now.
        device.trim()
        self._judge = CandidateEvaluator(
            ground, pool, config, secret, insists=config.measure and not message["alone"]
        )
        # Flaws are a matter of outputs; gradients may well be constant, or summed in any order.
        flaws = known_flaws(reference, pool) if reference.backward is None else []
        pool.pause = None
        return flaws


@contextlib.contextmanager
def _blaming(problem: str) -> Iterator[None]:
    """Before a candidate is there, what cannot be worked out is the problem's fault."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except SystemExit as error:
        raise ProblemError(f"problem {problem} asks to end the process: {error!r}") from error
    except UNFIT as error:
        line = traceback.format_exception_only(error)[-1].strip()
        raise ProblemError(f"problem {problem} cannot be judged here: {line}") from error


def _facts(device: torch.device) -> dict[str, str]:
    """What this process can say of its machine."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return {"device_name": name, "torch": torch.__version__, "cuda": torch.version.cuda or ""}


def main() -> None:
    """Serve the driver on the descriptor named on the command line."""
    RefereeServer(Channel.from_fd(int(sys.argv[1]))).serve()
