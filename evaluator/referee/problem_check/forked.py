"""Looks at problems in a child: what one breaks or changes dies with it, and torch is imported once."""

from __future__ import annotations

import os
import traceback
from typing import Any, NoReturn

import torch

from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, Message
from kernelwright.evaluator.referee.problem_check.inspection import ProblemInspection
from kernelwright.evaluator.referee.reference.meta_shapes import describe, warm_up
from kernelwright.evaluator.referee.worker.worker_process import DriverLink
from kernelwright.evaluator.schema.errors import ProblemError


def look_apart(channel: Channel, message: Message) -> dict[str, Any]:
    """Fork, let the child send what it finds, and say how it ended.

    Only sound in a process that has imported torch and done nothing with it: neither threads nor CUDA survive
    a fork.
    """
    if message["op"] == "describe":
        warm_up()
    pid = os.fork()
    if pid == 0:
        _child(channel, message)
    return {"op": "ended", "code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def _description(message: Message) -> Message:
    try:
        return describe(message)
    except (ProblemError, SystemExit):
        # Judging says what is wrong with it; a prompt is asked without facts.
        return {}


def _child(channel: Channel, message: Message) -> NoReturn:
    code = 1
    try:
        torch.set_num_threads(message["threads"])
        driver = DriverLink(channel)
        if message["op"] == "vet":
            channel.send({"op": "vetted", **ProblemInspection(driver, message).vet()})
        else:
            driver.call("begin")
            channel.send({"op": "described", **_description(message)})
        code = 0
    except ChannelClosed:
        pass  # the driver has given up: nobody is left to tell
    except Exception:  # noqa: BLE001  (our own fault: the driver raises it as an EvaluatorError)
        channel.send({"op": "crashed", "message": traceback.format_exc()})
    finally:
        os._exit(code)
