"""How long calls take, and what follows from it."""

from __future__ import annotations

import pytest
import torch

from kernelwright.evaluator.referee.reference.latency import fewer_threads
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.schema.errors import ProblemError
from tests.evaluator.referee.references import reference_of

SOURCE = """
import time
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(64, 64)]
"""


def _reference(body: str) -> Reference:
    return reference_of(SOURCE.format(body=body))


@pytest.fixture(autouse=True)
def _two_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def test_calls_that_take_longer_with_several_threads_get_one():
    crowded = _reference("time.sleep(0.01 * torch.get_num_threads()); return x + 1")
    with fewer_threads(crowded):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("body", ["time.sleep(0.03 / torch.get_num_threads())", "time.sleep(0.3)"])
def test_calls_that_gain_by_threads_or_take_long_keep_them(body):
    with fewer_threads(_reference(f"{body}; return x + 1")):
        assert torch.get_num_threads() == 2


def test_threads_are_given_back_after_a_failure():
    with pytest.raises(ProblemError), fewer_threads(_reference("raise ValueError")):
        pass
    assert torch.get_num_threads() == 2
