"""The referee's arithmetic on tensors of a GPU: nothing may meet that lies on different devices."""

import random

import pytest
import torch

from kernelwright.evaluator.ipc.tensor_layout import place, stacked, view
from kernelwright.evaluator.referee.correctness.comparison import compare
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.correctness.verification import poison
from kernelwright.evaluator.referee.problem_check.inspection import known_flaws
from kernelwright.evaluator.referee.problem_check.sensitivity import Sensitivity
from kernelwright.evaluator.referee.problem_check.trivial_answers import (
    Examiner,
    of_half_precision,
    of_identity,
    of_values,
)
from kernelwright.evaluator.referee.reference.flop_counter import count
from kernelwright.evaluator.referee.reference.reference import Reference
from kernelwright.evaluator.referee.timing.tamper_checks import MemorySample
from kernelwright.evaluator.referee.timing.timed_inputs import TimedInputs
from kernelwright.evaluator.referee.timing.timed_outputs import TimedOutputs
from tests.evaluator.referee.pretending import pretended
from tests.evaluator.referee.references import pool_of

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="this torch knows real GPUs")

OF_EVERY_KIND = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.embedding = nn.Embedding(10, 16)
        self.register_buffer("table", table)
        self.offsets = table * 2
    def forward(self, x, ids, mask):
        y = self.norm(x) + self.embedding(ids) @ self.table.diag() + self.offsets
        return {
            "masked": torch.where(mask, y, 0.0), "moved": ids + 1, "rows": x.shape[0], "any": mask.any(1),
            "spectrum": torch.fft.rfft(x), "halves": y.sum(-1).half(), "turned": x.t(), "none": x[:0],
        }
def get_inputs():
    return [torch.randn(8, 16), torch.randint(0, 10, (8,)), torch.rand(8, 16) > 0.5]
def get_init_inputs():
    return [torch.linspace(0, 1, 16)]
"""
DRAWN_ON_THE_CPU = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x * 2, x.sum()
def get_inputs():
    generator = torch.Generator().manual_seed(int(torch.randint(1000, (1,))))
    return [torch.randint(0, 10, (8, 16), generator=generator)]
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    with pretended(tmp_path_factory.mktemp("guard")) as device:
        yield device


def test_the_rules_are_those_of_a_gpu(gpu):
    there, here = torch.ones(3, device=gpu), torch.ones(3)
    assert float((there + torch.tensor(2.0)).sum()) == 9.0
    assert float(there[torch.tensor([1])]) == 1.0
    assert torch.equal(there.cpu(), here)
    with pytest.raises(RuntimeError, match="same device"):
        there + here
    with pytest.raises(RuntimeError, match="same device"):
        here[torch.tensor([1], device=gpu)]
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.rand(3, generator=torch.Generator(), device=gpu)
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.rand(3, generator=torch.Generator(gpu))


@pytest.mark.parametrize("source", [OF_EVERY_KIND, DRAWN_ON_THE_CPU], ids=["every kind", "drawn on the cpu"])
def test_trials_are_answered_published_and_compared_on_the_device(gpu, source):
    reference, secret = Reference("p", source, {}, device=gpu, dtype="as_is"), random.Random(3)
    pool = TrialPool(reference, math="fp32", secret=secret)
    known_flaws(reference, pool)
    (base, *_), draw = pool.bases, pool.draws[0]
    assert all(leaf.device == gpu for leaf in (*base.arguments.leaves, *base.expected.output.leaves))
    assert not reference.effects.inputs
    assert count(draw.model, base.arguments).operations

    slots, size = place(base.expected.output.leaves, count=1, block=0)
    memory = torch.zeros(size, dtype=torch.uint8, device=gpu)
    places = [view(memory, slot, 0) for slot in slots]
    for own, right in zip(places, base.expected.output.leaves, strict=True):
        poison(own, right)
    found = compare(base.expected, places, limit=base.limit, trial="t").mismatch
    assert found is not None
    for own, right in zip(places, base.expected.output.leaves, strict=True):
        own.copy_(right)
    assert compare(base.expected, places, limit=base.limit, trial="t").mismatch is None


@pytest.mark.parametrize("source", [OF_EVERY_KIND, DRAWN_ON_THE_CPU], ids=["every kind", "drawn on the cpu"])
def test_timed_calls_are_fed_and_checked_on_the_device(gpu, source):
    reference, secret = Reference("p", source, {}, device=gpu, dtype="as_is"), random.Random(4)
    pool = TrialPool(reference, math="fp32", secret=secret)
    inputs = TimedInputs(pool.starts(), pool.fresh, secret=secret)
    outputs = TimedOutputs(inputs, limit=192.0)
    recipe, model = inputs.recipe(3), pool.draws[0].model
    slots, size = place(pool.bases[0].arguments.leaves, count=3, block=0)
    memory = torch.zeros(size, dtype=torch.uint8, device=gpu)
    inputs.publish(memory, slots, recipe)
    sample = MemorySample(memory, slots, 3, secret)
    sample.look()
    published = [[call.clone() for call in stacked(memory, slot, 0, 3)] for slot in slots]
    inputs.withdraw(memory, slots, recipe)
    assert sample.moved()
    answers = [
        reference.call(model, pool.bases[0].arguments.with_leaves([leaf[call] for leaf in published])).leaves
        for call in range(3)
    ]
    ours = [torch.stack(leaves) for leaves in zip(*answers, strict=True)]
    assert outputs.compare(ours, ours, recipe, {}).mismatch == ""
    assert outputs.compare([leaf.roll(1, 0) for leaf in ours], ours, recipe, {}).mismatch


def test_problems_are_vetted_on_the_device(gpu):
    reference = Reference("p", OF_EVERY_KIND, {}, device=gpu, dtype="as_is")
    pool = pool_of(reference, 5)
    (base, other), model = pool.bases, pool.draws[0].model
    examiner = Examiner(base.expected, base.limit)
    list(of_values(examiner, pool.draws[1].trials[0].expected.output))
    of_identity(examiner, base.arguments)
    sensitivity = Sensitivity(reference, model, base.arguments, examiner)
    list(sensitivity.of_inputs(other.arguments))
    list(sensitivity.of_parameters(pool.draws[1].model))
    trace = trace_call(reference, model, base.arguments)
    of_half_precision(reference, base.arguments, examiner, seed=11, trace=trace)
