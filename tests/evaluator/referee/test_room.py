"""Who is to blame when a device's memory runs out, from what is free with and without a candidate."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from evaluator.errors import DeviceFull
from evaluator.referee.judge import Judge
from evaluator.referee.sides import Side

TOTAL = 100


class _Gpu:
    """A device whose free memory is as told, look by look."""

    torch_device = torch.device("cuda", 0)

    def __init__(self, *free: int) -> None:
        self._free = list(free)

    def free_bytes(self) -> int:
        return self._free.pop(0)

    def total_bytes(self) -> int:
        return TOTAL

    def trim(self) -> None:
        pass


def _blamed(*free: int, alone: bool, ours: int = 0) -> bool:
    judge: Any = object.__new__(Judge)
    judge._ground, judge._alone = SimpleNamespace(device=_Gpu(*free)), alone
    closed: list[bool] = []
    shared = SimpleNamespace(data=torch.empty(ours, dtype=torch.uint8))
    side = SimpleNamespace(close=lambda: closed.append(True), blocks=[shared])
    try:
        judge._insist_on_room(cast(Side, side), "no room")
    except DeviceFull:
        return False
    finally:
        assert closed
    return True


@pytest.mark.parametrize(
    ("beside", "without", "alone", "blamed"),
    [
        (1, 90, False, True),  # it held nearly all
        (85, 90, False, False),  # whoever held it has ended since
        (85, 90, True, True),  # nobody else was there: it asked for more than there is
        (1, 40, False, False),  # it held much, and others hold most
        (1, 40, True, False),
        (30, 60, False, True),
    ],
)
def test_who_is_blamed(beside, without, alone, blamed):
    assert _blamed(beside, without, alone=alone) is blamed


def test_memory_shared_with_it_is_not_what_it_has_taken():
    assert _blamed(40, 70, alone=False)
    assert not _blamed(40, 70, alone=False, ours=10)
