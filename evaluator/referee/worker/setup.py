"""Set a worker up: start it, load a module, construct its models, lay out memory for calls.

Every worker goes the same way: `start` (or, if a tool started it, `begin_configuration`), `load_model`,
`lay_out`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from kernelwright.evaluator.devices import Device
from kernelwright.evaluator.devices.policy import MEMORY_WAIT_S
from kernelwright.evaluator.ipc.contestant_messages import Construct, LayOut, Load, Setup
from kernelwright.evaluator.ipc.driver_requests import Role, Start
from kernelwright.evaluator.ipc.tensor_layout import Slot, place
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED, Spread
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.referee.worker import policy
from kernelwright.evaluator.referee.worker.call_buffers import CallBuffers, write
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.referee.worker.worker_process import WorkerProcess
from kernelwright.evaluator.schema.config import Dtype

VERIFIED: Final = "verify"
"""Name of the layout that a candidate is verified and profiled on."""


@dataclass(frozen=True, slots=True)
class ProblemContext:
    """Facts that all workers of a problem share."""

    driver: DriverLink
    device: Device
    reference: Reference
    overrides: dict[str, Any]
    device_name: str
    threads: int
    math: str
    dtype: str
    load_s: float
    keeps_state: bool = False
    """Calls write to the model's state, which is undone after each run."""
    operations: int = 0
    """Operations in a call of the reference, about one launch each; 0 where they could not be counted."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model to be constructed in a worker."""

    class_name: str
    model: str
    """Later messages call it by this name."""
    seed: int
    vary: bool
    """True if constant parameters are moved off their constants."""
    state: dict[str, torch.Tensor] | None = None
    """The reference's state to load afterwards."""
    given: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors that the model is given by name, as it could not make them from the seed."""
    compiled: bool = False
    spread: Spread = UNCHANGED
    """Factor on the distance of random weights from their means."""


def start(
    context: ProblemContext, *, role: Role, full_headers: bool = False, compile_s: float = 0.0
) -> WorkerProcess:
    """Start and configure a worker; `full_headers` forbids lean headers in its builds.

    `compile_s` is what a model's first call may take on top, where that call compiles its kernels.
    """
    worker = WorkerProcess(
        context.driver, context.device, Start(role=role, full_headers=full_headers), compile_s=compile_s
    )
    begin_configuration(context, worker)()
    return worker


def begin_configuration(
    context: ProblemContext,
    worker: WorkerProcess,
    *,
    threads: int | None = None,
    sharing: str | None = None,
) -> Callable[[], float]:
    """Begin to choose a worker's device, threads and precision; `sharing` is where shared memory lies.

    Returns what waits for that, as opening a GPU takes a second, and tells the seconds waited for the device.
    """
    threads = threads or context.threads
    return worker.begin_setup(
        Setup(device=context.device_name, threads=threads, math=context.math, sharing=sharing)
    )


def load_model(context: ProblemContext, worker: WorkerProcess, source: str, spec: ModelSpec) -> None:
    """Import a module in a worker and construct a model of it."""
    begin_load(context, worker, source, class_name=spec.class_name)()
    construct(context, worker, spec)


def begin_load(
    context: ProblemContext, worker: WorkerProcess, source: str, *, class_name: str
) -> Callable[[], object]:
    """Begin to import a module in a worker; return what waits for that, and for its builds.

    Only the reference's constants are overridden.
    """
    overrides = context.overrides if class_name == "Model" else {}
    return worker.post(Load(source=source, class_name=class_name, overrides=overrides), context.load_s)


def construct(context: ProblemContext, worker: WorkerProcess, spec: ModelSpec) -> None:
    """Construct a model in a worker, under a seed or with the reference's state."""
    arguments = context.reference.init_arguments()
    leaves = list(arguments.leaves)
    leaves += (spec.state or {}).values()
    leaves += spec.given.values()
    slots: list[Slot] = []
    if leaves:
        slots, size = place(leaves, count=1, block=0)
        block = worker.attach([size])[0]
        slots = [slot | {"block": block} for slot in slots]
        write(worker.blocks, slots, leaves, 0)
    request = Construct(
        class_name=spec.class_name,
        model=spec.model,
        seed=spec.seed,
        vary=spec.vary,
        args=arguments.args,
        kwargs=arguments.kwargs,
        slots=slots,
        state=None if spec.state is None else list(spec.state),
        given=list(spec.given),
        dtype=Dtype(context.dtype).torch_name,
        compile=spec.compiled,
        spread=None if spec.spread == UNCHANGED else spec.spread.as_message(),
    )
    worker.ask(request, context.load_s)
    worker.runner.begin_model(spec.model, restores=context.keeps_state)


def call_bytes(arguments: Arguments, output: Output) -> int:
    """Shared memory one call takes."""
    _, inputs = place(arguments.leaves, count=1, block=0)
    _, outputs = place(_dense(output.leaves), count=1, block=0)
    return inputs + outputs


@dataclass(frozen=True, slots=True)
class CallMemory:
    """The memory for calls that a worker is given."""

    name: str
    """Later messages call its layout by this name."""
    count: int = 1
    """Calls it holds."""
    private: bool = False
    """Each call gets copies of its arguments in allocations of exactly their size."""
    wait_s: float = MEMORY_WAIT_S
    """Seconds to wait where the device is full."""


def lay_out(worker: WorkerProcess, arguments: Arguments, output: Output, memory: CallMemory) -> CallBuffers:
    """Allocate memory for calls in a worker and let it prepare its views.

    Raises:
        torch.OutOfMemoryError: the device is full, and stays so.
    """
    count = memory.count
    input_slots, input_size = place(arguments.leaves, count=count, block=0)
    effects, returned = output.effects, output.returned
    output_slots, output_size = place(_dense(output.leaves[:returned]), count=count, block=0)
    state = _dense(output.leaves[returned + len(effects.inputs) :])
    state_slots, output_size = place(state, count=1, block=0, start=output_size)
    input_block, output_block = worker.attach([input_size, max(1, output_size)], wait_s=memory.wait_s)
    if output.backward is not None:
        worker.runner.renew_arguments()
    input_slots = [slot | {"block": input_block} for slot in input_slots]
    output_slots = [
        slot | {"block": output_block, "number": number}
        for slot, number in zip(output_slots, output.numbers[:returned], strict=True)
    ]
    state_slots = [slot | {"block": output_block} for slot in state_slots]
    request = LayOut(
        layout=memory.name,
        count=count,
        args=arguments.args,
        kwargs=arguments.kwargs,
        input_slots=input_slots,
        output_slots=output_slots,
        output_tree=output.value,
        state=list(effects.state),
        state_slots=state_slots,
        private=memory.private,
        backward=output.backward.as_message() if output.backward is not None else None,
    )
    worker.ask(request, policy.LAY_OUT_S)
    return CallBuffers(
        worker, memory.name, input_slots, output_slots, input_block, output_block, state_slots, effects.inputs
    )


def lay_out_call(
    worker: WorkerProcess, name: str, arguments: Arguments, output: Output, *, private: bool = False
) -> CallBuffers:
    """Lay out a single call and write its inputs."""
    buffers = lay_out(worker, arguments, output, CallMemory(name, private=private))
    buffers.write(arguments.leaves)
    return buffers


def _dense(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") for leaf in leaves]
