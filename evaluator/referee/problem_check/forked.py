"""Looks at problems in a child: what one breaks or changes dies with it, and torch is imported once."""

from __future__ import annotations

import os
import traceback
from typing import NoReturn

import torch

from kernelwright.evaluator.ipc import referee_messages as wire
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed
from kernelwright.evaluator.ipc.driver_requests import Begin
from kernelwright.evaluator.referee.problem_check.inspection import ProblemInspection
from kernelwright.evaluator.referee.reference.meta_shapes import describe, warm_up
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.schema.errors import ProblemError


def inspect_in_child(channel: Channel, asked: wire.InspectProblem | wire.DescribeProblem) -> wire.ChildEnded:
    """Fork, let the child send what it finds, and say how it ended.

    Only sound in a process that has imported torch and done nothing with it: neither threads nor CUDA survive
    a fork.
    """
    if isinstance(asked, wire.DescribeProblem):
        warm_up()
    pid = os.fork()
    if pid == 0:
        _child(channel, asked)
    return wire.ChildEnded(code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


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
