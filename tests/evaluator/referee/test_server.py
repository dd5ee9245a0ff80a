"""Opening a problem: whatever the problem does, the answer is one line that names it."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.referee.server import RefereeServer
from kernelwright.evaluator.schema.config import EvaluationConfig

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs():
    return [{inputs}]
"""


def _opened(
    body: str, inputs: str = "torch.randn(64, 64)", asked: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    ours, theirs = map(Channel, socket.socketpair())
    serving = threading.Thread(target=RefereeServer(theirs).serve)
    serving.start()
    try:
        ours.send(
            {
                "op": "open",
                "problem": "odd",
                "source": SOURCE.format(body=body, inputs=inputs),
                "overrides": {},
                "config": EvaluationConfig(device="cpu").model_dump(mode="json"),
                "device": "cpu",
                "threads": 1,
                "alone": False,
            }
        )
        while True:
            answer = ours.receive(60.0)
            if answer["op"] != "hold":
                return answer
            if asked is not None:
                asked.append(answer)
            ours.send({"waited_s": 0.0})
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
    assert answer["op"] == "problem_error"
    assert named in answer["message"]
    assert answer["message"].startswith("problem odd")
    assert "\n" not in answer["message"]


def test_what_cannot_fit_is_refused_before_it_is_run() -> None:
    answer = _opened("return x + 1", "torch.randn(1 << 22, 1 << 22)")
    assert answer["op"] == "device_full"
    assert "are free on this device; choose smaller --shapes" in answer["message"]


def test_an_ordinary_problem_opens() -> None:
    assert _opened("return x + 1")["op"] == "opened"


def test_opening_lets_others_time_between_its_steps():
    asked: list[dict[str, Any]] = []
    assert _opened("return torch.relu(x)", asked=asked)["op"] == "opened"
    assert [each for each in asked if each["exclusive"]] == []
    assert sum(bool(each.get("anew")) for each in asked) > 5
