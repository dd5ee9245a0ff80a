"""Outputs belong to their caller: it writes to them, keeps some, and looks at what becomes of them."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest
import torch

from kernelwright.evaluator.contestant import calls
from kernelwright.evaluator.contestant.exceptions import CompilerPatterns
from kernelwright.evaluator.contestant.executor import Contestant
from kernelwright.evaluator.devices import open_device
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.driver_requests import Peek, Peeked, Start
from kernelwright.evaluator.ipc.tensor_layout import place
from kernelwright.evaluator.ipc.tensor_tree import dtype_from
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.referee.worker.output_ownership import _make_storable, address_of
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.evaluation import Status
from tests.evaluator.referee.thread_driver import ThreadDriver

CALLS = 6
SHAPE = (32, 48)


class _Driver(ThreadDriver):
    """Starts a contestant, and looks at its memory."""

    def __init__(self, *, sees: bool, shared: bool = False) -> None:
        self._sees, self._shared = sees, shared
        made: Future[Contestant] = Future()

        def serve(channel: Channel) -> None:
            made.set_result(Contestant(channel, cast(CompilerPatterns, None)))
            made.result().serve()

        super().__init__(serve)
        self.contestant = made.result(30)

    def ask(self, request: Any) -> Any:
        if isinstance(request, Peek):
            found = [ctypes.string_at(address, size).hex() for address, size in request.places if address]
            return Peeked(found=found if self._sees else None, shared=self._shared)
        return super().ask(request)


class _Ring:
    """A model whose calls write to the storages of a ring, one after the other."""

    def __init__(self, length: int) -> None:
        self.storages = [torch.zeros(SHAPE).untyped_storage() for _ in range(length)]
        self.calls = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        storage = self.storages[self.calls % len(self.storages)]
        return torch.empty(0).set_(storage, 0, SHAPE).copy_(x)


def _buffers(model: Callable[..., Any], driver: _Driver, example: Any = None) -> CallBuffers:
    worker = WorkerProcess(driver, open_device("cpu"), Start(role="candidate"))
    worker._channel.receive()
    driver.contestant._models["m"] = model
    outputs = [torch.empty(SHAPE)] if example is None else example
    inputs, input_bytes = place([torch.empty(SHAPE)], count=CALLS, block=0)
    slots, output_bytes = place(outputs, count=CALLS, block=1)
    worker.attach([input_bytes, output_bytes])
    leaf = {"k": "tensor", "i": 0}
    several = {"k": "tuple", "v": [{"k": "tensor", "i": number} for number in range(len(outputs))]}
    request = wire.LayOut(
        layout="time",
        count=CALLS,
        args={"k": "list", "v": [leaf]},
        kwargs={"k": "dict", "v": []},
        input_slots=inputs,
        output_slots=slots,
        output_tree=leaf if len(outputs) == 1 else several,
        state=[],
        state_slots=[],
        private=False,
        backward=None,
    )
    worker.ask(request, 10.0)
    return CallBuffers(worker, "time", inputs, slots, 0, 1)


@pytest.fixture(params=[True, False], ids=["seen", "read-back"])
def driver(request) -> Iterator[_Driver]:
    made = _Driver(sees=request.param)
    yield made
    made._ours.close()


def _turn(buffers: CallBuffers, secret: random.Random, count: int = CALLS, *, looks: bool = True) -> None:
    for index in range(count):
        buffers.write([torch.randn(SHAPE)], index)
    buffers.run("m", timeout_s=10.0, count=count)
    buffers.returned.take_back(secret, looks=looks)


def test_new_memory_from_every_call_is_fine_for_many_turns(driver):
    buffers, secret = _buffers(torch.tanh, driver), random.Random(1)
    for _ in range(20):
        _turn(buffers, secret)
    assert 1 < len(driver.contestant._kept["time"]) <= 4


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (lambda x: x, None),
        (lambda x: x[:1].expand(SHAPE), None),
        (lambda x: (x.tanh().t(), x > 0), [torch.empty(SHAPE[::-1]), torch.empty(SHAPE, dtype=torch.bool)]),
        (
            lambda x: (x.half(), x.tanh(), x[:0]),
            [torch.empty(SHAPE).half(), torch.empty(SHAPE), torch.empty(0, 48)],
        ),
        (lambda x: torch.tanh(x).chunk(2, 1), [torch.empty(32, 24)] * 2),
    ],
)
def test_outputs_of_any_kind_can_be_overwritten(driver, model, example):
    buffers, secret = _buffers(model, driver, example), random.Random(2)
    for _ in range(4):
        _turn(buffers, secret)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.complex64])
def test_outputs_are_kept_by_copies_that_go_through_wider_numbers(driver, monkeypatch, dtype):
    """As a GPU's copies of lists do, in which any NaN becomes the usual one."""

    def through_wider(goals, values):
        for goal, value in zip(goals, values, strict=True):
            wide = value.to(torch.complex128 if dtype.is_complex else torch.float64)
            parts = torch.view_as_real(wide) if dtype.is_complex else wide
            parts.nan_to_num_(float("nan"), float("inf"), float("-inf"))
            goal.copy_(wide.to(dtype))

    monkeypatch.setattr(torch, "_foreach_copy_", through_wider)
    buffers = _buffers(lambda x: x.tanh().to(dtype), driver, [torch.empty(SHAPE, dtype=dtype)])
    secret = random.Random(9)
    for _ in range(20):
        _turn(buffers, secret)


def test_copies_that_take_as_long_as_collecting_are_no_time_beside_the_calls(driver):
    buffers, secret = _buffers(torch.tanh, driver), random.Random(8)
    buffers.write([torch.randn(SHAPE)])
    buffers.run("m", timeout_s=10.0)
    copies = 1 if driver._sees else 2
    assert -1e6 * copies <= buffers.returned.take_back(secret, collect_ms=1e6) < -1e6 * copies + 1e5


def test_what_was_returned_is_noise_before_it_is_dropped(driver):
    ring = _Ring(CALLS)
    _turn(_buffers(ring, driver), random.Random(3))
    for storage in ring.storages:
        held = torch.empty(0).set_(storage, 0, SHAPE)
        assert len(held.view(torch.int32).unique()) > 0.9 * held.numel()


def test_a_ring_that_writes_over_what_was_kept_is_found_out(driver):
    buffers, secret = _buffers(_Ring(CALLS), driver), random.Random(4)
    _turn(buffers, secret)
    with pytest.raises(CandidateFailed, match="kept was changed by a later call") as raised:
        _turn(buffers, secret)
    assert raised.value.status is Status.WRONG_VALUES


def test_a_worker_that_does_not_let_its_outputs_be_overwritten_is_found_out(driver, monkeypatch):
    monkeypatch.setattr("kernelwright.evaluator.contestant.calls.overwrite", lambda *_: None)
    buffers = _buffers(torch.tanh, driver)
    with pytest.raises(CandidateFailed, match="not memory of its own"):
        _turn(buffers, random.Random(5))


@pytest.mark.parametrize("driver", [True], indirect=True, ids=["seen"])
def test_who_alone_does_not_let_its_memory_be_read_has_something_to_hide(driver):
    buffers, secret = _buffers(torch.tanh, driver), random.Random(12)
    _turn(buffers, secret)
    driver._sees = False
    with pytest.raises(CandidateFailed, match="does not let its memory be looked at") as raised:
        _turn(buffers, secret)
    assert raised.value.status is Status.TAMPERED


@pytest.mark.parametrize("driver", [True], indirect=True, ids=["seen"])
def test_any_byte_but_zero_is_true(driver):
    def all_bits(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, 255, 0).to(torch.uint8).view(torch.bool)

    buffers, secret = _buffers(all_bits, driver, [torch.empty(SHAPE, dtype=torch.bool)]), random.Random(13)
    for _ in range(3):
        _turn(buffers, secret)


@pytest.mark.parametrize("driver", [True], indirect=True, ids=["seen"])
def test_answers_that_were_collected_from_other_memory_are_found_out(driver, monkeypatch):
    collect, answers = calls.collect, []

    def own(returned: list[Any], *_: object) -> tuple[float, list[Any]]:
        answers[:] = returned
        return 0.0, [torch.ones(SHAPE) for _ in returned]

    monkeypatch.setattr("kernelwright.evaluator.contestant.calls.own", own)
    monkeypatch.setattr(
        "kernelwright.evaluator.contestant.calls.collect", lambda _, *rest: collect(answers, *rest)
    )
    with pytest.raises(CandidateFailed, match="does not lie in the memory that was returned") as raised:
        _turn(_buffers(torch.tanh, driver), random.Random(11))
    assert raised.value.status is Status.WRONG_VALUES


@pytest.mark.parametrize("driver", [False], indirect=True, ids=["read-back"])
def test_outputs_are_overwritten_without_a_look_and_what_was_kept_is_found_by_a_later_one(driver):
    ring = _Ring(CALLS)
    buffers, secret = _buffers(ring, driver), random.Random(10)
    _turn(buffers, secret, looks=False)
    for storage in ring.storages:
        held = torch.empty(0).set_(storage, 0, SHAPE)
        assert len(held.view(torch.int32).unique()) > 0.9 * held.numel()
    _turn(buffers, secret, looks=False)
    with pytest.raises(CandidateFailed, match="kept was changed by a later call"):
        _turn(buffers, secret)


def test_elements_that_share_memory_do_not_hold_what_was_written_to_them(driver, monkeypatch):
    monkeypatch.setattr(
        "kernelwright.evaluator.contestant.calls.aliased_outputs", lambda returned, shared: frozenset()
    )
    whole: list[torch.Tensor] = []

    def overlapping(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole.append(torch.zeros(SHAPE))
        return whole[-1], whole[-1].detach()

    buffers = _buffers(overlapping, driver, [torch.empty(SHAPE)] * 2)
    with pytest.raises(CandidateFailed, match="not memory of its own"):
        _turn(buffers, random.Random(6))


@pytest.mark.parametrize(
    "place", [[4096, "8" * 64], [4096.5, 4], [True, 4], [4096], [4096, 4, 4], "40", {"0": 1}, None]
)
def test_places_that_are_no_whole_numbers_lie_nowhere(place: object):
    """A text times a number would be as long as a worker likes."""
    assert address_of([[place]], 0, 0, (1 << 40,)) == 0
    assert address_of([[[4096, 4]]], 0, 0, (2,)) == 4104


def test_memory_that_may_be_mapped_twice_is_refused():
    driver = _Driver(sees=True, shared=True)
    with pytest.raises(CandidateFailed, match="a file or in shared memory"):
        _turn(_buffers(torch.tanh, driver), random.Random(7))
    driver._ours.close()


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "complex128", "complex64", "float8_e4m3fn"]
)
def test_noise_holds_no_infinity_and_no_nan_and_is_random_otherwise(name: str) -> None:
    drawn = torch.randint(256, (1 << 16,), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    noise = drawn.clone()
    _make_storable(noise, {"dtype": name})
    assert bool(noise.view(dtype_from(name)).to(torch.complex128).isfinite().all())
    changed = drawn ^ noise
    size = dtype_from(name).itemsize // (2 if name.startswith("complex") else 1)
    assert bool((changed[size - 1 :: size] & 0xBF == 0).all())
    assert int(changed.count_nonzero()) == int(changed[size - 1 :: size].count_nonzero())
