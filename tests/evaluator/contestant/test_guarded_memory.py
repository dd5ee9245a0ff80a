"""Tensors of a run between guard pages: which are placed there, and what comes back."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.evaluator.contestant.guarded_memory import GuardedMemory
from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc.contestant_messages import Guard

ALL = ["input", "parameters", "allocations"]


def _memory(tensors: list[str] | None = None, budget: int = 1 << 24) -> GuardedMemory:
    fields: Any = {"layout": "one", "edge": "end", "budget": budget}
    return GuardedMemory(open_device("cpu"), Guard(tensors=ALL if tensors is None else tensors, **fields))


def _touches_a_page(tensor: torch.Tensor) -> bool:
    size = tensor.numel() * tensor.element_size()
    return (tensor.data_ptr() + -(-size // 64) * 64) % 4096 == 0


@pytest.mark.parametrize("make", [
    lambda: torch.empty(100), lambda: torch.zeros(100), lambda: torch.ones(4, 25),
    lambda: torch.full((100,), 2.0),
    lambda: torch.empty_like(torch.tensor([1.0] * 100)), lambda: torch.empty_strided((10, 10), (1, 10)),
    lambda: torch.tensor([1.0] * 100).new_empty(100), lambda: torch.tensor([1.0] * 100).clone(),
])  # fmt: skip
def test_what_torch_allocates_is_placed(make) -> None:
    memory = _memory()
    with memory.around(None):
        placed = make()
    assert _touches_a_page(placed)
    assert placed.storage_offset() == 0
    assert not placed._is_view()
    if not placed.isnan().all():
        assert torch.equal(placed, make())


def test_memory_that_is_not_written_is_not_a_number() -> None:
    memory = _memory()
    with memory.around(None):
        assert torch.empty(100).isnan().all()


def test_strides_of_an_argument_are_kept() -> None:
    given = torch.arange(12.0).reshape(3, 4).t()
    placed = _memory().argument(0, given)
    assert placed.stride() == given.stride()
    assert torch.equal(placed, given)


@pytest.mark.parametrize("make", [
    lambda: torch.tensor(1.0).expand(4), lambda: torch.eye(3).to_sparse(),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_what_has_no_plain_memory_stays_where_it_is(make) -> None:
    memory = _memory()
    model = nn.Module()
    model.register_buffer("kept", make())
    with memory.around(model):
        assert not memory._blocks


def test_what_is_called_between_guard_pages_is_compiled_by_a_later_call() -> None:
    compiled: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        compiled.append(len(inputs))
        return graph.forward

    function = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    with _memory().around(None):
        assert torch.equal(function(torch.zeros(3)), torch.ones(3))
    assert compiled == []
    function(torch.zeros(3))
    assert compiled == [1]


def test_changes_to_arguments_and_buffers_come_back() -> None:
    memory, given, model = _memory(), torch.zeros(5), nn.BatchNorm1d(3)
    before = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    placed = memory.argument(0, given)
    with memory.around(model):
        assert _touches_a_page(model.weight)
        placed.fill_(2)
        model.running_mean.fill_(3)
    assert given.tolist() == [2] * 5
    assert model.running_mean.tolist() == [3] * 3
    assert before == {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}


def test_an_exception_leaves_parameters_where_they_were() -> None:
    model = nn.Linear(3, 3)
    before = model.weight.data_ptr()
    with pytest.raises(ZeroDivisionError), _memory().around(model):
        raise ZeroDivisionError
    assert model.weight.data_ptr() == before


def test_one_named_tensor_is_placed_alone() -> None:
    memory, given = _memory(["input 1"]), torch.zeros(100)
    assert memory.argument(0, given) is given
    assert memory.argument(1, given) is not given
    assert memory.argument(11, given) is given
    with memory.around(nn.Linear(2, 2)):
        assert not torch.empty(100).isnan().all() or not _touches_a_page(torch.empty(100))


def test_what_finds_no_room_stays_where_it_is() -> None:
    memory, given = _memory(budget=10_000), torch.zeros(2000)
    assert memory.argument(0, given) is not given
    assert memory.argument(1, given) is given


def test_a_write_beyond_an_end_is_named() -> None:
    memory = _memory()
    placed = memory.argument(2, torch.zeros(10))
    assert memory.overrun() == ""
    ctypes.c_float.from_address(placed.data_ptr() + 40).value = 1.0
    assert memory.overrun() == "it writes beyond the end of its input 2"
    del placed
    memory.unmap_unused()


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")
@pytest.mark.parametrize("scripted", [False, True])
def test_modules_compute_the_same(scripted: bool) -> None:
    torch.manual_seed(1)
    model: Any = nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 5)).eval()
    model, given = torch.jit.script(model) if scripted else model, torch.randn(7, 30)
    memory = _memory()
    with torch.no_grad():
        wanted = model(given)
        with memory.around(model):
            found = model(memory.argument(0, given))
    torch.testing.assert_close(found, wanted)
