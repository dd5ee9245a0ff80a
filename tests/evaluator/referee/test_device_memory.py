"""Who is to blame when a device's memory runs out."""

from typing import cast

import pytest
import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.referee.device_memory import require_shortage_is_own
from kernelwright.evaluator.schema.errors import DeviceFull

TOTAL = 100


class _Gpu:
    """A device with so much free memory."""

    torch_device = torch.device("cuda", 0)

    def __init__(self, free: int) -> None:
        self._free = free

    def free_bytes(self) -> int:
        return self._free

    def total_bytes(self) -> int:
        return TOTAL

    def trim(self, *, above: int = 0) -> None:
        pass


def _blamed(free: int, *, others_evicted: bool) -> bool:
    try:
        require_shortage_is_own(cast(Device, _Gpu(free)), "no room", others_evicted=others_evicted)
    except DeviceFull:
        return False
    return True


@pytest.mark.parametrize(
    ("without", "others_evicted", "blamed"),
    [
        (90, False, False),  # another may have held it, and have ended since
        (90, True, True),  # nobody else was there: it asked for more than there is
        (40, False, False),
        (40, True, False),  # others hold most
    ],
)
def test_who_is_blamed(without, others_evicted, blamed):
    assert _blamed(without, others_evicted=others_evicted) is blamed
