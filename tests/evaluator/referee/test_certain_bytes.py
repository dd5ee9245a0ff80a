"""What certainly crosses the memory bus: never more than an honest kernel could do with."""

from __future__ import annotations

import torch
from torch import nn

from kernelwright.evaluator.referee.checks.roofline import certain_bytes
from kernelwright.evaluator.referee.reference.reference import Arguments
from tests.evaluator.referee.references import call_of


def certain(forward, *leaves: torch.Tensor) -> int:
    """Certain bytes of a function of tensors."""
    return certain_bytes(*call_of(forward, *leaves))


def test_an_elementwise_function_reads_and_writes_everything():
    assert certain(torch.tanh, torch.randn(4096)) == 2 * 4 * 4096


def test_what_is_masked_away_need_not_be_read():
    x = torch.randn(64, 1024)
    assert certain(lambda x: torch.sin(x[:, :256]), x) == 2 * 64 * 256 * 4
    assert certain(lambda x: x.tril() * 2, torch.randn(64, 64)) < 2 * 64 * 64 * 4


def test_a_rectifier_reads_what_it_drops():
    x = torch.randn(65536)
    assert 0.98 * 8 * 65536 <= certain(lambda x: torch.relu(x) * 3, x) <= 8 * 65536


def test_outputs_that_could_be_views_are_not_counted():
    x = torch.randn(64, 64)
    assert certain(lambda x: x.t().contiguous(), x) <= 64 * 64 * 4


def test_an_input_passed_twice_is_read_once():
    x = torch.randn(128, 128)
    assert certain(lambda a, b: a @ b, x, x) == 2 * 128 * 128 * 4


def test_nothing_is_certain_of_integers_and_of_what_has_no_gradient():
    index = torch.randint(0, 100, (1000,))
    assert (
        certain(lambda table, i: torch.sin(table[i]), torch.randn(100, 8), index)
        <= 1000 * 8 * 4 + 100 * 8 * 4
    )
    assert certain(lambda x: torch.sin(x.detach()), torch.randn(1000)) == 4000


def test_a_model_that_keeps_what_it_worked_out_is_counted_too():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4096))
            self.scale = self.weight.exp()

        def forward(self, x):
            return x * self.scale

    tree = {"k": "list", "v": [{"k": "tensor", "i": 0}]}
    arguments = Arguments(tree, {"k": "dict", "v": []}, [torch.randn(4096)])
    assert certain_bytes(Model(), arguments) == 2 * 4 * 4096
