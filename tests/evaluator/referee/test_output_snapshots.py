"""What a process held when it answered, against what is collected from it later."""

from __future__ import annotations

import ctypes
import random
from typing import cast

import pytest
import torch

from kernelwright.evaluator.contestant.calls import where
from kernelwright.evaluator.ipc.tensor_layout import place
from kernelwright.evaluator.referee.timing.tamper_checks import OutputSnapshot
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess

COUNT = 3


class _Here:
    """A worker whose memory is ours."""

    def __init__(self, known: set[int]) -> None:
        self.known = known

    def peek(self, places):
        return [
            ctypes.string_at(address, size) if any(low <= address < high for low, high in self.known) else b""
            for address, size in places
        ]


class _Unseen:
    def peek(self, places):
        del places


class _Plain:
    """All of a layout that says where outputs lie."""

    device = torch.device("cpu")


def _held(returned, worker=None):
    """And whether it could be seen."""
    slots, _ = place([returned[0]], count=COUNT, block=0)
    reach = {(one.data_ptr(), one.data_ptr() + one.untyped_storage().nbytes()) for one in returned}
    held = OutputSnapshot(cast(WorkerProcess, worker or _Here(reach)), slots, COUNT, random.Random(3))
    return held, held.look(where(returned, _Plain()))


def _outputs(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [(100 * torch.randn(7, 5)).to(dtype) for _ in range(COUNT)]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_what_was_there_is_what_is_collected(dtype):
    returned = _outputs(dtype)
    held, seen = _held(returned)
    assert seen
    assert not held.differs([torch.stack([one.view(torch.uint8) for one in returned]).view(dtype)])


def test_views_of_any_strides_are_found():
    returned = [torch.randn(5, 14)[:, ::2].t() for _ in range(COUNT)]
    assert not _held(returned)[0].differs([torch.stack(returned)])


def test_nan_is_what_it_is():
    returned = [torch.full((7, 5), float("nan")) for _ in range(COUNT)]
    assert not _held(returned)[0].differs([torch.stack(returned)])


def test_answers_worked_out_while_they_are_collected_are_found_out():
    returned = _outputs()
    late, _ = _held(returned)
    for one in returned:
        one.add_(1.0)
    assert late.differs([torch.stack(returned)])


def test_one_call_of_a_batch_is_enough():
    returned = _outputs()
    collected = torch.stack(returned)
    collected[1] += 1
    assert _held(returned)[0].differs([collected])


@pytest.mark.parametrize(
    "claim",
    [
        None,
        [],
        "x",
        [[]],
        {"0": 1},
        [[["a", 1, 1]]] * 3,
        [[[1 << 70, 5, 1]]] * 3,
        [[[float("nan"), 5, 1]]] * 3,
    ],
)
def test_claims_that_make_no_sense_are_claims_of_nothing(claim):
    returned = _outputs()
    slots, _ = place([returned[0]], count=COUNT, block=0)
    held = OutputSnapshot(cast(WorkerProcess, _Here(set())), slots, COUNT, random.Random(3))
    assert held.look(claim)
    assert held.differs([torch.stack(returned)])


def test_complex_outputs_are_looked_at_like_any_other():
    returned = [torch.randn(7, 5, dtype=torch.complex64).t() for _ in range(COUNT)]
    held, _ = _held(returned)
    assert not held.differs([torch.stack(returned)])
    for one in returned:
        torch.view_as_real(one)[..., 1] += 1.0
    assert held.differs([torch.stack(returned)])


def test_empty_outputs_are_left_alone():
    returned = [torch.empty(0, 4)] * COUNT
    held, seen = _held(returned, _Unseen())
    assert seen
    assert not held.differs([torch.stack(returned)])


def test_where_nobody_may_look_nothing_is_said():
    returned = _outputs()
    held, seen = _held(returned, _Unseen())
    assert not seen
    assert not held.differs([torch.stack(returned) + 1])
