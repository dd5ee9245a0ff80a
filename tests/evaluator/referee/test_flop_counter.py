"""Counting what a call needs: arithmetic, bytes read and written, memory, all from shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelwright.evaluator.referee.reference.flop_counter import OpCounts, count, count_problem_work
from kernelwright.evaluator.schema.errors import ProblemError
from tests.evaluator.referee.references import call_of

HEAD = "import torch\nfrom torch import nn\n"


def counted(forward, *leaves: torch.Tensor) -> OpCounts:
    """The work of a function of tensors."""
    return count(*call_of(forward, *leaves))


@pytest.mark.parametrize(
    ("forward", "shapes", "flops"),
    [
        (lambda a, b: a @ b, [(8, 16), (16, 4)], 2 * 8 * 16 * 4),
        (lambda a, b: a @ b, [(3, 8, 16), (3, 16, 4)], 3 * 2 * 8 * 16 * 4),
        (lambda a, b: a @ b, [(8, 16), (16,)], 2 * 8 * 16),
        (torch.dot, [(64,), (64,)], 128),
        (nn.functional.linear, [(8, 16), (4, 16), (4,)], 2 * 8 * 16 * 4),
        (lambda a, b: torch.einsum("bij,bjk->bik", a, b), [(3, 8, 16), (3, 16, 4)], 3 * 2 * 8 * 16 * 4),
        (nn.functional.conv2d, [(2, 3, 10, 10), (5, 3, 3, 3)], 2 * 2 * 5 * 8 * 8 * 27),
        (nn.functional.conv_transpose2d, [(2, 3, 8, 8), (3, 5, 3, 3)], 2 * 2 * 3 * 8 * 8 * 45),
        (torch.relu, [(8, 8)], 0),
    ],
)
def test_arithmetic_is_counted_from_shapes(forward, shapes, flops):
    assert counted(forward, *(torch.ones(shape) for shape in shapes)).flops == flops


def test_attention_is_two_products_however_it_is_computed():
    query, key = torch.ones(2, 4, 64, 32), torch.ones(2, 4, 96, 32)
    attention = nn.functional.scaled_dot_product_attention
    assert counted(attention, query, key, key).flops == 2 * 2 * (2 * 4 * 64 * 96 * 32)


@pytest.mark.parametrize(
    ("forward", "masks"),
    [
        (lambda q, k: (q @ k).masked_fill(torch.ones(8, 8).triu(1).bool(), -1e9).softmax(-1), True),
        (lambda q, k: q.tril() @ k.triu(), True),
        (lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=q > 0), True),
        (lambda q, k: torch.relu(q @ k), False),
    ],
)
def test_masked_operands_are_noticed_for_their_work_may_be_skipped(forward, masks):
    work = counted(forward, torch.ones(1, 1, 8, 8), torch.ones(1, 1, 8, 8))
    assert work.masks is masks and work.flops > 0


def test_inputs_are_read_once_however_often_they_are_used():
    work = counted(lambda x: x * x + x.sum(), torch.ones(100))
    assert work.read_bytes == 400
    assert work.written_bytes == 400
    assert work.moved_bytes > 1200


def test_a_gather_reads_only_what_it_takes():
    work = counted(lambda table, index: table[index], torch.ones(1000, 8), torch.arange(10))
    assert work.read_bytes == 10 * 8 * 4 + 10 * 8


def test_views_are_free():
    work = counted(lambda x: x.t().reshape(-1)[:50] * 2, torch.ones(1, 100))
    assert work.operations == 1
    assert work.read_bytes == 200


def test_memory_counts_what_is_alive_together():
    work = counted(lambda x: ((x + 1) + 1) + 1, torch.ones(1000))
    assert work.peak_bytes == 3 * 4000


@pytest.mark.parametrize(
    ("forward", "found"),
    [
        (lambda a, b: (a @ b).sum(-1), True),
        (lambda a, b: ((a @ b) * 2 + 1).mean(0), True),
        (lambda a, b: torch.relu(a @ b).sum(-1), False),
        (lambda a, b: ((a @ b) * a).sum(-1), False),
        (lambda a, b: (a + b).sum(-1), False),
    ],
)
def test_a_sum_over_a_product_is_noticed(forward, found):
    assert counted(forward, torch.ones(64, 64), torch.ones(64, 64)).sums_products is found


def test_a_problem_is_weighed_without_its_memory():
    source = HEAD + (
        "class Model(nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
        "def get_inputs():\n    return [torch.randn(N, N), torch.randn(N, N)]\nN = 1 << 20\n"
    )
    work = count_problem_work("p", source, {}, dtype="as_is")
    assert work.complete
    assert work.peak_bytes == 3 * 4 << 40
    assert work.flops == 2 << 60
    assert count_problem_work("p", source, {"N": 64}, dtype="as_is").peak_bytes == 3 * 4 * 64 * 64


@pytest.mark.parametrize(
    "demand",
    ["x.sum().item()", "assert_(x.device.type == 'cuda')", "{}[str(x.device)]"],
    ids=["value", "device", "name"],
)
def test_a_model_that_asks_for_values_is_weighed_as_far_as_it_goes(demand):
    source = HEAD + (
        "def assert_(true):\n    assert true\n"
        f"class Model(nn.Module):\n    def forward(self, x):\n        return x if {demand} else -x\n"
        "def get_inputs():\n    return [torch.randn(1000)]\n"
    )
    work = count_problem_work("p", source, {}, dtype="as_is")
    assert not work.complete
    assert work.peak_bytes >= 4000


def test_a_problem_that_cannot_be_imported_cannot_be_weighed():
    with pytest.raises(ProblemError, match="cannot be imported"):
        count_problem_work("p", "import no_such_module\n", {}, dtype="as_is")
