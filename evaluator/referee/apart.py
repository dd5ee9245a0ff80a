"""Vetting in a child: what a problem breaks, leaks or changes dies with it, and torch is imported once."""

from __future__ import annotations

import os
import traceback
from typing import Any, NoReturn

import torch

from evaluator.protocol import Channel, ChannelClosed, Message
from evaluator.referee.sides import DriverLink
from evaluator.referee.vetting import Vetter


def vet_apart(channel: Channel, message: Message) -> dict[str, Any]:
    """Fork, let the child send what it finds, and say how it ended.

    Only sound in a process that has imported torch and done nothing with it: neither threads nor CUDA survive
    a fork.
    """
    pid = os.fork()
    if pid == 0:
        _child(channel, message)
    return {"op": "ended", "code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def _child(channel: Channel, message: Message) -> NoReturn:
    code = 1
    try:
        torch.set_num_threads(message["threads"])
        vetter = Vetter(DriverLink(channel), message)
        channel.send({"op": "vetted", **vetter.vet()})
        code = 0
    except ChannelClosed:
        pass  # the driver has given up: nobody is left to tell
    except Exception:  # noqa: BLE001  (our own fault: the driver raises it as an EvaluatorError)
        channel.send({"op": "crashed", "message": traceback.format_exc()})
    finally:
        os._exit(code)
