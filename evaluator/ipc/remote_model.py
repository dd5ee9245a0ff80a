"""A model that lives in a contestant and is called from outside: values go in, copies of outputs come out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch

from kernelwright.evaluator.devices import Block, Device, open_device
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import Channel, ChannelError, JsonObject
from kernelwright.evaluator.ipc.messages import A_co, Request, answers_to, decode
from kernelwright.evaluator.ipc.policy import MAX_OUTPUT_BYTES
from kernelwright.evaluator.ipc.tensor_layout import Slot, place, view
from kernelwright.evaluator.ipc.tensor_tree import Tree, dtype_from, flatten, unflatten
from kernelwright.evaluator.schema.errors import KernelError

_MODEL = "kernel"
_NOTHING: Tree = {"k": "list", "v": []}
_NO_NAMES: Tree = {"k": "dict", "v": []}


class RemoteModel:
    """Called like a module, forward only. Sizes that its process names are checked; values are its own."""

    def __init__(
        self,
        channel: Channel,
        build: Callable[[object], wire.Built],
        close: Callable[[], str],
        *,
        timeout_s: float,
    ) -> None:
        """`build` serves its process's builds, `close` ends it and says how it ended."""
        self._channel = channel
        self._build = build
        self._close = close
        self._timeout_s = timeout_s
        self._device: Device = open_device("cpu")
        self._blocks: list[Block] = []
        self._layouts: dict[str, tuple[str, list[Slot]]] = {}
        """Memory of each form of call and of each form of output; it is used again, and never given back."""

    def open(self, device: str, setup: wire.Setup, source: str) -> None:
        """Wait for the process, choose its device, and import the source there.

        Raises:
            KernelError: it does not start, or the source raises.
        """
        self._read(self._receive(), wire.Listening)
        self._ask(setup)
        if device != "cpu":
            current = torch.cuda.current_device()
            self._device = open_device(device)
            torch.cuda.set_device(current)
        self._ask(wire.Load(source=source, class_name="ModelNew", overrides={}))

    def construct(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        state: Mapping[str, torch.Tensor] | None,
        dtype: str,
    ) -> None:
        """Make the model; `state` is loaded as the evaluator loads the reference's.

        Raises:
            KernelError: it raises.
            UnsupportedValue: an argument is no tensor, number, string, dtype, device or container of those.
        """
        (given, names), leaves = _arguments(args, kwargs)
        slots = self._placed([*leaves, *(state or {}).values()])
        request = wire.Construct(
            class_name="ModelNew",
            model=_MODEL,
            seed=torch.initial_seed() % 2**63,
            vary=False,
            args=given,
            kwargs=names,
            slots=slots,
            state=None if state is None else list(state),
            given=[],
            dtype=dtype,
            compile=False,
        )
        self._ask(request)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: whatever the model takes and returns
        """Call the model without gradients; what it does to its arguments is not seen.

        Numbers among its outputs come as tensors without dimensions.

        Raises:
            KernelError: it raises, does not answer in time, or its process ended.
            UnsupportedValue: an argument is no tensor, number, string, dtype, device or container of those.
        """
        (given, names), leaves = _arguments(args, kwargs)
        layout, slots = self._laid_out(leaves, [], given, names, _NOTHING)
        for slot, leaf in zip(slots, leaves, strict=True):
            view(self._blocks[slot["block"]].data, slot, 0).copy_(leaf.detach())
        self._device.synchronize()
        self._ask(wire.Run(layout=layout, model=_MODEL, first=0, count=1))
        described = self._ask(wire.Describe())
        outputs = _described_tensors(described)
        layout, slots = self._laid_out([], outputs, _NOTHING, _NO_NAMES, described.tree)
        collected = self._ask(wire.Collect(layout=layout, first=0))
        if collected.kind:
            raise KernelError(f"the outputs changed while they were collected: {collected.complaint}")

        unnamed = set(range(len(slots)))

        def output(index: int) -> torch.Tensor:
            unnamed.remove(index)  # or few tensors would be copied as often as a worker likes
            return view(self._blocks[slots[index]["block"]].data, slots[index], 0).clone()

        try:
            return unflatten(described.tree, output)
        except (ValueError, TypeError, LookupError, RuntimeError, OverflowError) as error:
            raise KernelError(f"the kernel's process describes no outputs: {error}") from None

    def close(self) -> None:
        """End the process and free what was shared with it."""
        self._channel.close()
        self._close()
        while self._blocks:
            self._blocks.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _laid_out(
        self,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        args: Tree,
        kwargs: Tree,
        output_tree: Tree,
    ) -> tuple[str, list[Slot]]:
        """A layout of one call and its slots: one used before, where the tensors are of the same form."""
        form = [(str(tensor.dtype), list(tensor.shape), tensor.stride()) for tensor in (*inputs, *outputs)]
        key = json.dumps([form, len(inputs), args, kwargs, output_tree])
        if key not in self._layouts:
            slots = self._placed([*inputs, *outputs])
            request = wire.LayOut(
                layout=str(len(self._layouts)),
                count=1,
                args=args,
                kwargs=kwargs,
                input_slots=slots[: len(inputs)],
                # Numbers may lie on any device; so may all of them here.
                output_slots=[slot | {"number": True} for slot in slots[len(inputs) :]],
                output_tree=output_tree,
                state=[],
                state_slots=[],
                private=True,
                backward=None,
            )
            self._ask(request)
            self._layouts[key] = (request.layout, slots)
        return self._layouts[key]

    def _placed(self, tensors: list[torch.Tensor]) -> list[Slot]:
        """Slots in a new block of shared memory, which holds the values that are at hand."""
        slots, size = place(tensors, count=1, block=len(self._blocks))
        if not tensors:
            return slots
        block = self._device.allocate(size)
        self._blocks.append(block)
        for slot, tensor in zip(slots, tensors, strict=True):
            if tensor.device.type != "meta":
                view(block.data, slot, 0).copy_(tensor.detach())
        self._device.synchronize()
        descriptor = block.descriptor() | {"fds": len(block.fds())}
        self._ask(wire.Attach(blocks=[descriptor]), block.fds())
        return slots

    def _ask(self, request: Request[A_co], fds: tuple[int, ...] = ()) -> A_co:
        try:
            self._channel.send(request.to_json(), fds)
        except ChannelError as error:
            raise self._close_and_report(error) from None
        return self._read(self._receive(), *answers_to(type(request)))

    def _receive(self) -> JsonObject:
        """The next message; builds are served meanwhile, and their time does not count."""
        deadline = time.monotonic() + self._timeout_s
        try:
            while True:
                received = self._channel.receive(max(0.0, deadline - time.monotonic()))
                if received.get("op") != wire.RequestBuild.op:
                    return received
                asked = time.monotonic()
                built = self._build(decode(received, wire.RequestBuild).request)
                deadline += time.monotonic() - asked
                self._channel.send(built.to_json())
        except ChannelError as error:
            raise self._close_and_report(error) from None

    def _read(self, received: JsonObject, *kinds: type[A_co]) -> A_co:
        try:
            answer = decode(received, wire.Failed, *kinds)
        except ChannelError as error:
            raise self._close_and_report(error) from None
        if isinstance(answer, wire.Failed):
            raise KernelError(f"{answer.type}: {answer.message}")
        return answer  # type: ignore[return-value]  # of one of the kinds, since it is no `Failed`

    def _close_and_report(self, error: ChannelError) -> KernelError:
        """Close the process and return the error."""
        return KernelError(f"the kernel's process is gone ({self._close()}): {error or type(error).__name__}")


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Tree, Tree], list[torch.Tensor]]:
    tree, leaves = flatten([list(args), kwargs])
    given, names = tree["v"]
    return (given, names), leaves


def _described_tensors(described: wire.Described) -> list[torch.Tensor]:
    """Tensors without memory, of the sizes that the process says, which are bounded here."""
    tensors, total = [], 0
    try:
        for one in described.tensors:
            dtype, shape = dtype_from(one["dtype"]), [int(size) for size in one["shape"]]
            total += math.prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or total > MAX_OUTPUT_BYTES:
                raise ValueError(f"outputs of shape {shape} and {total} bytes in all")
            tensors.append(torch.empty(shape, dtype=dtype, device="meta"))
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise KernelError(f"the kernel's process describes no outputs: {error}") from None
    return tensors
