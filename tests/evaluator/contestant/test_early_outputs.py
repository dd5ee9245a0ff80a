"""Outputs of queued calls are spoiled in places of their own, and only while the gate is shut."""

from __future__ import annotations

import ctypes

import pytest
import torch

from kernelwright.evaluator.contestant import early_outputs
from kernelwright.evaluator.contestant.calls import GateWait
from kernelwright.evaluator.contestant.early_outputs import spoil
from kernelwright.evaluator.contestant.policy import SPOILED_CALLS
from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.devices.cpu import CpuDevice
from kernelwright.evaluator.devices.policy import NOISE_BYTES


class _Host(CpuDevice):
    """A CPU that writes noise at once."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int]] = []

    def write_noise(self, places: list[tuple[int, int]]) -> None:
        self.places += places
        for address, size in places:
            ctypes.memset(address, 0xFF, size)


def _shut() -> bool:
    return True


@pytest.fixture
def short_noise(monkeypatch) -> None:
    """Noise of one number, so that small outputs are large enough."""
    monkeypatch.setattr(early_outputs, "NOISE_BYTES", 4)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda memory: memory, id="dense"),
        pytest.param(lambda memory: memory[:, 3:11], id="columns"),
        pytest.param(lambda memory: memory[:, ::2], id="every other"),
        pytest.param(lambda memory: memory.t(), id="transposed"),
        pytest.param(lambda memory: memory.view(4, 4, 16).permute(1, 2, 0)[1:3], id="permuted"),
        pytest.param(lambda memory: memory[5, 7], id="scalar"),
    ],
)
@pytest.mark.usefixtures("short_noise")
def test_noise_falls_on_elements_of_the_output_alone(view) -> None:
    for _ in range(20):
        memory = torch.zeros(16, 16)
        spoil([view(memory)], _Host(), _shut)
        changed = memory.isnan().sum()
        assert 0 < changed == view(memory).isnan().sum()


def test_of_a_large_output_as_much_is_spoiled_as_a_copy_engine_writes() -> None:
    output = torch.zeros(64, 3, 512).permute(2, 0, 1)
    spoil([output], _Host(), _shut)
    assert output.isnan().sum() == NOISE_BYTES // 4


def test_an_output_with_less_memory_in_a_row_is_left_alone() -> None:
    device, memory = _Host(), torch.zeros(2, NOISE_BYTES // 4)
    spoil([memory[0, 1:], memory[:, 1:], torch.zeros(2, 3)], device, _shut)
    assert device.places == []


@pytest.mark.usefixtures("short_noise")
def test_every_output_of_a_nested_answer_is_spoiled() -> None:
    answer = {"left": torch.zeros(3), "others": (torch.zeros(2, dtype=torch.int32), [torch.zeros(1)])}
    spoil([answer], _Host(), _shut)
    assert answer["left"].isnan().sum() == 1
    assert (answer["others"][0] == -1).sum() == 1
    assert answer["others"][1][0].isnan().all()


def test_empty_outputs_and_those_of_other_devices_are_left_out() -> None:
    device = _Host()
    spoil([torch.zeros(0, 4), torch.empty(3, device="meta"), 7], device, _shut)
    assert device.places == []


@pytest.mark.usefixtures("short_noise")
def test_a_few_calls_of_many_are_spoiled_anew_each_time() -> None:
    device = _Host()
    drawn = set()
    for _ in range(3):
        outputs = [torch.zeros(2) for _ in range(4 * SPOILED_CALLS)]
        spoil(outputs, device, _shut)
        hit = tuple(bool(each.isnan().any()) for each in outputs)
        assert sum(hit) == SPOILED_CALLS
        drawn.add(hit)
    assert len(drawn) == 3


@pytest.mark.usefixtures("short_noise")
def test_nothing_is_spoiled_once_the_gate_is_open() -> None:
    word = torch.zeros(64, dtype=torch.uint8)
    gate, output = GateWait(word, 2, queued=lambda: None), torch.zeros(4)
    word[:4].view(torch.int32).fill_(2)
    spoil([output], _Host(), gate.is_shut)
    assert not output.isnan().any()
    word[:4].view(torch.int32).fill_(1)
    spoil([output], _Host(), gate.is_shut)
    assert output.isnan().any()


@pytest.mark.gpu
def test_a_copy_engine_writes_beside_what_waits() -> None:
    device = open_device("cuda")
    word = device.allocate_word()
    gate = GateWait(word.data, 1, queued=lambda: None)
    output = torch.zeros(1 << 20, device="cuda")
    output[::2] += 0  # a kernel that is loaded now, because loading waits for the device
    device.synchronize()
    gate.shut(device)
    output[::2] += 1
    spoil([output], device, gate.is_shut)
    word.data[:4].view(torch.int32).fill_(1)
    device.synchronize()
    values = output.cpu()
    assert (values[::2] == 1).sum() < values[::2].numel()
    assert (values[1::2] != 0).any()
