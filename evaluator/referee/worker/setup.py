"""Setting sides up: loading source, constructing models, laying out memory for calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.ipc.tensor_layout import Slot, place, view
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers
from kernelwright.evaluator.referee.worker.worker_process import DriverLink, WorkerProcess


@dataclass(frozen=True, slots=True)
class ProblemContext:
    """What every side of a problem shares."""

    driver: DriverLink
    device: Device
    reference: Reference
    overrides: dict[str, Any]
    device_name: str
    threads: int
    math: str
    dtype: str
    load_s: float
    operations: int = 0
    """That a call of the reference consists of, each about one launch; 0 where they could not be counted."""


def start(ground: ProblemContext, *, role: str, real_headers: bool = False) -> WorkerProcess:
    """A fresh process, set up but without any foreign code; what it builds may be kept from lean headers."""
    side = WorkerProcess(ground.driver, ground.device, role=role, real_headers=real_headers)
    side.setup(device=ground.device_name, threads=ground.threads, math=ground.math)
    return side


def load(ground: ProblemContext, side: WorkerProcess, source: str, *, class_name: str) -> None:
    """Import a module in a side; only the reference's constants are overridden."""
    side.ask(
        {
            "op": "load",
            "source": source,
            "class": class_name,
            "overrides": ground.overrides if class_name == "Model" else {},
        },
        ground.load_s,
    )


@dataclass(frozen=True, slots=True)
class ModelConstruction:
    """One model to be constructed in a side."""

    class_name: str
    model: str
    """The name later messages call it by."""
    seed: int
    vary: bool
    """Whether constant parameters are moved off their constants."""
    state: dict[str, torch.Tensor] | None = None
    """The reference's state to load afterwards."""
    compiled: bool = False


def construct(ground: ProblemContext, side: WorkerProcess, wanted: ModelConstruction) -> None:
    """Construct a model in a side, under a seed or with the reference's state."""
    side.restores = ground.reference.keeps_state
    arguments = ground.reference.init_arguments()
    leaves = list(arguments.leaves)
    state = None
    if wanted.state is not None:
        places = [{"k": "tensor", "i": len(leaves) + index} for index in range(len(wanted.state))]
        state = {"names": list(wanted.state), "tree": {"k": "list", "v": places}}
        leaves += wanted.state.values()
    slots: list[Slot] = []
    if leaves:
        slots, size = place(leaves, count=1, block=0)
        block = side.attach([size])[0]
        slots = [slot | {"block": block} for slot in slots]
        write(side, slots, leaves, 0)
    side.ask(
        {
            "op": "construct",
            "class": wanted.class_name,
            "model": wanted.model,
            "seed": wanted.seed,
            "vary": wanted.vary,
            "args": arguments.args,
            "kwargs": arguments.kwargs,
            "slots": slots,
            "state": state,
            "dtype": {"as_is": "", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[ground.dtype],
            "compile": wanted.compiled,
        },
        ground.load_s,
    )
    side.renew(wanted.model)


def call_bytes(arguments: Arguments, output: Output) -> int:
    """Shared memory one call takes."""
    _, inputs = place(arguments.leaves, count=1, block=0)
    _, outputs = place(_dense(output.leaves), count=1, block=0)
    return inputs + outputs


def lay_out(
    side: WorkerProcess, name: str, arguments: Arguments, output: Output, count: int, *, private: bool = False
) -> CallBuffers:
    """Allocate memory for `count` calls in a side and let it prepare its views.

    With `private`, each call gets copies of its arguments in allocations of exactly their size.
    """
    input_slots, input_size = place(arguments.leaves, count=count, block=0)
    output_slots, output_size = place(_dense(output.leaves), count=count, block=0)
    input_block, output_block = side.attach([input_size, output_size])
    side.renews |= output.backward is not None
    input_slots = [slot | {"block": input_block} for slot in input_slots]
    output_slots = [
        slot | {"block": output_block, "number": number}
        for slot, number in zip(output_slots, output.numbers, strict=True)
    ]
    side.ask(
        {
            "op": "prepare",
            "layout": name,
            "count": count,
            "args": arguments.args,
            "kwargs": arguments.kwargs,
            "input_slots": input_slots,
            "output_slots": output_slots,
            "output_tree": output.tree,
            "private": private,
            "backward": output.backward.as_message() if output.backward is not None else None,
        },
        60.0,
    )
    return CallBuffers(
        side=side,
        layout=name,
        input_slots=input_slots,
        output_slots=output_slots,
        input_block=input_block,
        output_block=output_block,
    )


def write(side: WorkerProcess, slots: list[Slot], leaves: list[torch.Tensor], index: int) -> None:
    """Copy tensors into a side's shared memory at call `index`."""
    for slot, leaf in zip(slots, leaves, strict=True):
        view(side.blocks[slot["block"]].data, slot, index).copy_(leaf)


def _dense(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") for leaf in leaves]
