"""What a process held when it answered, against what is collected from it later."""

from __future__ import annotations

import ctypes
import random
from array import array
from typing import cast

import pytest
import torch

from kernelwright.evaluator.contestant.output_places import committed
from kernelwright.evaluator.ipc.tensor_layout import place
from kernelwright.evaluator.referee.timing.tamper_checks import AnswerSample
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

COUNT = 3
TENSOR = {"k": "tensor", "i": 0}


class _Here:
    """A worker whose memory is ours."""

    def __init__(self, known: set[tuple[int, int]]) -> None:
        self.known = known

    def open_memory(self):
        pass

    def look(self, places):
        return [
            ctypes.string_at(address, size) if any(low <= address < high for low, high in self.known) else b""
            for address, size in places
        ]


class _Unseen:
    def open_memory(self):
        pass

    def look(self, places):
        del places


def _sample(returned, worker=None, state=()):
    slots, _ = place([returned[0]], count=COUNT, block=0)
    state_slots, _ = place(state, count=1, block=0)
    reach = {(one.data_ptr(), one.data_ptr() + one.untyped_storage().nbytes()) for one in (*returned, *state)}
    held = worker or _Here(reach)
    return AnswerSample(cast(WorkerProcess, held), slots, state_slots, COUNT, random.Random(3))


def _held(returned, worker=None, state=()):
    held = _sample(returned, worker, state)
    held.look(committed(returned, TENSOR, state))
    return held


def _outputs(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [(100 * torch.randn(7, 5)).to(dtype) for _ in range(COUNT)]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_what_was_there_is_what_is_collected(dtype):
    returned = _outputs(dtype)
    held = _held(returned)
    assert not held.differs([torch.stack([one.view(torch.uint8) for one in returned]).view(dtype)])


def test_views_of_any_strides_are_found():
    returned = [torch.randn(5, 14)[:, ::2].t() for _ in range(COUNT)]
    assert not _held(returned).differs([torch.stack(returned)])


def test_nan_is_what_it_is():
    returned = [torch.full((7, 5), float("nan")) for _ in range(COUNT)]
    assert not _held(returned).differs([torch.stack(returned)])


def test_answers_worked_out_while_they_are_collected_are_found_out():
    returned = _outputs()
    late = _held(returned)
    for one in returned:
        one.add_(1.0)
    assert late.differs([torch.stack(returned)])


def test_one_call_of_a_batch_is_enough():
    returned = _outputs()
    collected = torch.stack(returned)
    collected[1] += 1
    assert _held(returned).differs([collected])


@pytest.mark.parametrize("told", ["", "x", "00", array("q", [1 << 62] * COUNT).tobytes().hex()])
def test_claims_that_make_no_sense_are_claims_of_nothing(told):
    returned = _outputs()
    held = _sample(returned, _Here(set()))
    held.look(told)
    assert held.differs([torch.stack(returned)])


def test_one_call_of_many_strides_does_not_hide_the_others():
    returned = [torch.randn(7, 5), torch.randn(5, 7).t(), torch.randn(7, 5)]
    assert not _held(returned).differs([torch.stack(returned)])
    assert _held([returned[0]] * COUNT).differs([torch.stack(returned)])


def test_state_is_looked_at_beside_outputs():
    returned, state = _outputs(), [torch.randn(6), torch.randn(4, 3).t()]
    held = _held(returned, state=state)
    left = [one.clone()[None] for one in state]
    assert not held.differs([torch.stack(returned), *left])
    left[1] += 1.0
    assert held.differs([torch.stack(returned), *left])


@pytest.mark.parametrize("shape", [(4096, 64), (16,)])
def test_a_twentieth_that_is_missing_is_seen_in_most_turns(shape):
    """Whatever the order in which it was written, and beside a larger output."""
    seen = 0
    for seed in range(40):
        returned = [torch.randn(shape) for _ in range(20)]
        slots, _ = place([returned[0]], count=20, block=0)
        reach = {(one.data_ptr(), one.data_ptr() + one.untyped_storage().nbytes()) for one in returned}
        held = AnswerSample(cast(WorkerProcess, _Here(reach)), slots, [], 20, random.Random(seed))
        held.look(committed(returned, TENSOR))
        returned[seed % 20].add_(1.0)
        seen += held.differs([torch.stack(returned)])
    assert seen > 30


def test_complex_outputs_are_looked_at_like_any_other():
    returned = [torch.randn(7, 5, dtype=torch.complex64).t() for _ in range(COUNT)]
    held = _held(returned)
    assert not held.differs([torch.stack(returned)])
    for one in returned:
        torch.view_as_real(one)[..., 1] += 1.0
    assert held.differs([torch.stack(returned)])


def test_empty_outputs_are_left_alone():
    returned = [torch.empty(0, 4)] * COUNT
    held = _held(returned, _Unseen())
    assert not held.differs([torch.stack(returned)])


def test_where_nobody_may_look_nothing_is_said():
    returned = _outputs()
    held = _held(returned, _Unseen())
    assert not held.differs([torch.stack(returned) + 1])
