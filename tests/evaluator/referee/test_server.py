"""Opening a problem: whatever the problem does, the answer is one line that names it."""

from __future__ import annotations

import socket
import threading
from typing import cast

import pytest

from kernelwright.evaluator.ipc import referee_messages
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.driver_requests import DeviceHeld, Hold
from kernelwright.evaluator.ipc.messages import decode
from kernelwright.evaluator.ipc.referee_messages import (
    Open,
    Opened,
    RefereeRequest,
    Refused,
    SanitizeCandidate,
)
from kernelwright.evaluator.referee.server import RefereeServer
from kernelwright.evaluator.schema.config import EvaluationConfig
from tests.messages import check_handlers, kinds_in

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs():
    return [{inputs}]
"""


def _opened(
    body: str, inputs: str = "torch.randn(64, 64)", asked: list[Hold] | None = None
) -> Opened | Refused:
    ours, theirs = map(Channel, socket.socketpair())
    serving = threading.Thread(target=RefereeServer(theirs).serve)
    serving.start()
    request = Open(
        problem="odd",
        source=SOURCE.format(body=body, inputs=inputs),
        overrides={},
        config=EvaluationConfig(device="cpu").model_dump(mode="json"),
        device="cpu",
        threads=1,
        others_evicted=False,
    )
    try:
        ours.send(request.to_json())
        while True:
            answer = decode(ours.receive(60.0), Hold, Opened, Refused)
            if not isinstance(answer, Hold):
                return answer
            if asked is not None:
                asked.append(answer)
            ours.send(DeviceHeld(waited_s=0.0).to_json())
    finally:
        ours.close()
        serving.join()
        theirs.close()


@pytest.mark.parametrize(
    ("body", "inputs", "named"),
    [
        ("raise SystemExit(3)", "torch.randn(4)", "asks to end the process"),
        ("return (x > 0).view(torch.bits8)", "torch.randn(64)", "cannot be judged here"),
        ("return x / 0 if x.dim() else 1 // 0", "torch.tensor(1.0)", "ZeroDivisionError"),
        ("return x + 1", "torch.eye(64).to_sparse()", "sparse_coo"),
    ],
)
def test_a_problem_that_cannot_be_opened_is_a_bad_problem_in_one_line(
    body: str, inputs: str, named: str
) -> None:
    answer = _opened(body, inputs)
    assert isinstance(answer, Refused) and answer.reason == "problem"
    assert named in answer.text
    assert answer.text.startswith("problem odd")
    assert "\n" not in answer.text


def test_what_cannot_fit_is_refused_before_it_is_run() -> None:
    answer = _opened("return x + 1", "torch.randn(1 << 22, 1 << 22)")
    assert isinstance(answer, Refused) and answer.reason == "device_full"
    assert "are free on this device; choose smaller --shapes" in answer.text


def test_an_ordinary_problem_opens() -> None:
    assert isinstance(_opened("return x + 1"), Opened)


def test_opening_lets_others_time_between_its_steps():
    asked: list[Hold] = []
    assert isinstance(_opened("return torch.relu(x)", asked=asked), Opened)
    assert [each for each in asked if each.exclusive] == []
    assert sum(each.anew for each in asked) > 5


def test_every_request_has_one_handler() -> None:
    handlers = RefereeServer(cast(Channel, None)).handlers
    assert set(handlers) == kinds_in(referee_messages, RefereeRequest)
    check_handlers(handlers)


def test_a_candidate_before_its_problem_is_our_fault_and_the_referee_lives_on() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    serving = threading.Thread(target=RefereeServer(theirs).serve)
    serving.start()
    for line in ({"op": "no such thing"}, SanitizeCandidate(source="").to_json()):
        ours.send(line)
        assert decode(ours.receive(60.0), Refused).reason == "crash"
    ours.close()
    serving.join()
    theirs.close()
