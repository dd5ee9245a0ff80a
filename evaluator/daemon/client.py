"""Evaluates through this user's daemon, which the first command starts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from kernelwright.evaluator.daemon import messages as wire
from kernelwright.evaluator.daemon.endpoint import DaemonGone, Endpoint
from kernelwright.evaluator.daemon.policy import CHECK_S, LOG_TAIL, START_S, STOP_S
from kernelwright.evaluator.driver.evaluation_job import OnStage
from kernelwright.evaluator.evaluator import default_cache, evaluate
from kernelwright.evaluator.sandbox import strongest
from kernelwright.evaluator.sandbox.process.cleanup import start_time
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.config import EvaluationConfig, SandboxTier
from kernelwright.evaluator.schema.errors import EvaluatorError
from kernelwright.evaluator.schema.evaluation import Evaluation
from kernelwright.evaluator.schema.problem import Problem


def evaluate_warm(
    problem: Problem,
    candidate: Candidate,
    config: EvaluationConfig | None = None,
    *,
    cache: Path | None = None,
    on_stage: OnStage | None = None,
) -> Evaluation:
    """Evaluate in this user's daemon, started if there is none: the problem stays open for the next call.

    Where no daemon starts or the one there dies, and without a sandbox, this process evaluates by itself.
    Raises what `Evaluator.evaluate` raises.
    """
    config, cache = config or EvaluationConfig(), cache or default_cache()
    if strongest(config.sandbox) is not SandboxTier.NONE:
        with suppress(DaemonGone), closing(_connected(Endpoint.of(cache), cache)) as connection:
            request = wire.Evaluate(problem=problem, candidate=candidate, config=config)
            for reply in _replies(connection, request):
                match reply:
                    case wire.Entered() if on_stage is not None:
                        on_stage(reply.stage)
                    case wire.Evaluated():
                        return reply.evaluation
                    case wire.Failed():
                        raise reply.exception()
    return evaluate(problem, candidate, config, cache=cache, on_stage=on_stage)


def running_daemons() -> list[wire.DaemonStatus]:
    """All daemons of this user, of other versions and environments too."""
    return [answer for one in Endpoint.all() if (answer := _asked(one, wire.Describe())) is not None]


def stop_daemons() -> list[wire.DaemonStatus]:
    """Stop them all, cancel what they run, and wait for their end; returns those that were asked to."""
    asked = {one: answer for one in Endpoint.all() if (answer := _asked(one, wire.Stop())) is not None}
    deadline = time.monotonic() + STOP_S
    while any(start_time(daemon.pid) for daemon in asked.values()) and time.monotonic() < deadline:
        time.sleep(CHECK_S / 5)
    return list(asked.values())


def _asked(endpoint: Endpoint, request: wire.Describe | wire.Stop) -> wire.DaemonStatus | None:
    """A daemon's answer; None if it is gone."""
    with suppress(DaemonGone, EvaluatorError), closing(endpoint.connect()) as connection:
        for reply in _replies(connection, request):
            return reply if isinstance(reply, wire.DaemonStatus) else None
    return None


def _replies(connection: Connection, request: wire.Request) -> Iterator[wire.Reply]:
    """The replies to a request; raises DaemonGone where the daemon ends before the last of them."""
    try:
        wire.send(connection, request)
        while True:
            yield wire.receive(connection, wire.REPLY)
    except (OSError, EOFError) as error:
        raise DaemonGone("the daemon ended") from error


def _connected(endpoint: Endpoint, cache: Path) -> Connection:
    """A connection to the daemon, started if need be; raises DaemonGone where it does not start."""
    with suppress(DaemonGone):
        return endpoint.connect()
    with endpoint.starting(START_S) as is_ours:
        if not is_ours:
            raise DaemonGone("another command starts it, and does not get done")
        with suppress(DaemonGone):
            return endpoint.connect()  # started by whoever we waited for
        with endpoint.log() as log, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-P", "-m", "kernelwright.evaluator.daemon", str(cache.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                timeout=START_S,
                check=False,
            )
        try:
            return endpoint.connect()
        except DaemonGone as error:
            raise DaemonGone(f"it does not start: {endpoint.printed(LOG_TAIL)}") from error
