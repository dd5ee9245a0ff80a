"""The contestant's main loop: obeys the referee's messages, one candidate, one process.

Started inside the sandbox with the number of its channel, from a copy of just the modules it needs.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.evaluator.contestant import load_inline_shim
from kernelwright.evaluator.contestant.calls import (
    CallBatch,
    CallLayout,
    GateWait,
    collect,
    prepare,
    run,
    where,
)
from kernelwright.evaluator.contestant.exceptions import BACKENDS_FILE, CompilerPatterns, failure
from kernelwright.evaluator.contestant.profiling import count, profile
from kernelwright.evaluator.contestant.threads import set_threads
from kernelwright.evaluator.devices import Block, Device, open_device
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed
from kernelwright.evaluator.ipc.messages import Dispatcher, Done, Message, Request, decode
from kernelwright.evaluator.ipc.model_init import construct, load_state
from kernelwright.evaluator.ipc.model_state import ModelState
from kernelwright.evaluator.ipc.precision import apply_math
from kernelwright.evaluator.ipc.tensor_layout import exact_copy, view
from kernelwright.evaluator.ipc.tensor_tree import dtype_from, unflatten


class Contestant:
    """State of one contestant: its device, its shared blocks, the loaded module and its models."""

    def __init__(self, channel: Channel, compilers: CompilerPatterns) -> None:
        self._channel = channel
        self._compilers = compilers
        self._building = threading.Lock()
        self._device: Device = open_device("cpu")
        self._sharing: Device = self._device
        self._finished = False
        self._blocks: list[Block] = []
        self._module = types.ModuleType("candidate")
        self._models: dict[str, Any] = {}
        self._layouts: dict[str, CallLayout] = {}
        self._returned: list[Any] = []
        self._before: ModelState | None = None
        self.handlers: dict[type[Request[Any]], Callable[[Any], Message]] = {
            wire.Setup: self._setup,
            wire.Attach: self._attach,
            wire.Load: self._load,
            wire.Construct: self._construct,
            wire.LayOut: self._lay_out,
            wire.MakeReady: self._make_ready,
            wire.Run: self._run,
            wire.Stain: self._stain,
            wire.Collect: self._collect,
            wire.Restore: self._restore,
            wire.Profile: self._profile,
            wire.CountCounters: self._count,
            wire.SetThreads: self._set_threads,
            wire.Finish: self._finish,
        }

    def serve(self) -> None:
        """Answer requests until the referee hangs up."""
        dispatcher = Dispatcher(self.handlers)
        self._channel.send(wire.Listening().to_json())
        while not self._finished:
            try:
                received = self._channel.receive(with_fds=True)
            except ChannelClosed:
                return
            try:
                answer = dispatcher.handle(received)
            except BaseException as error:  # noqa: BLE001  (the candidate's code may raise anything at all)
                answer = failure(error, self._compilers)
            self._channel.send(answer.to_json())

    def _setup(self, request: wire.Setup) -> Done:
        torch.set_num_threads(request.threads)
        apply_math(request.math)
        self._device = open_device(request.device)
        self._sharing = open_device(request.sharing) if request.sharing else self._device
        load_inline_shim.install(self._build)
        return Done()

    def _attach(self, request: wire.Attach) -> Done:
        fds = self._channel.take_fds()
        for descriptor in request.blocks:
            needed = fds[: int(descriptor["fds"])]
            del fds[: len(needed)]
            self._blocks.append(self._sharing.attach(descriptor, needed))
        return Done()

    def _load(self, request: wire.Load) -> Done:
        path = Path(tempfile.gettempdir()) / "candidate.py"
        path.write_text(request.source, "utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = self._module
        spec.loader.exec_module(self._module)
        vars(self._module).update(request.overrides)
        if not callable(getattr(self._module, request.class_name, None)):
            raise AttributeError(f"the module defines no class {request.class_name}")
        return Done()

    def _construct(self, request: wire.Construct) -> Done:
        def leaf(index: int) -> torch.Tensor:
            slot = request.slots[index]
            return exact_copy(view(self._blocks[slot["block"]].data, slot, 0), self._device.torch_device)

        args, kwargs = (unflatten(tree, leaf) for tree in (request.args, request.kwargs))
        model = construct(
            getattr(self._module, request.class_name), args, kwargs, request.seed, vary=request.vary
        )
        if isinstance(model, torch.nn.Module):
            model.to(self._device.torch_device)
            if request.dtype:
                model.to(dtype_from(request.dtype))
            if request.state is not None:
                first = len(request.slots) - len(request.state)
                load_state(model, {name: leaf(first + index) for index, name in enumerate(request.state)})
        if request.compile:
            model = torch.compile(model)
        self._models[request.model] = model
        return Done()

    def _lay_out(self, request: wire.LayOut) -> Done:
        self._layouts[request.layout] = prepare(request, self._blocks, self._device.torch_device)
        return Done()

    def _make_ready(self, request: wire.MakeReady | wire.Run) -> Done:
        self._before = ModelState(self._models[request.model]) if request.restore else None
        self._layouts[request.layout].ready(request.first, request.count)
        return Done()

    def _run(self, request: wire.Run) -> wire.Ran:
        if not request.ready:
            self._make_ready(request)
        layout, gate = self._layouts[request.layout], self._gate(request)
        batch = CallBatch(request.first, request.count, request.lead)
        inner_ms, self._returned = run(self._models[request.model], layout, self._device, batch, gate=gate)
        return wire.Ran(inner_ms=inner_ms, where=where(self._returned, layout))

    def _gate(self, request: wire.Run) -> GateWait | None:
        if request.gate_block is None:
            return None
        word = self._blocks[request.gate_block].data
        return GateWait(word, request.gate_value, lambda: self._channel.send(wire.Queued().to_json()))

    def _stain(self, request: wire.Stain) -> Done:
        self._device.stain()
        self._device.synchronize()
        return Done()

    def _collect(self, request: wire.Collect) -> wire.Collected:
        returned, self._returned = self._returned, []
        with torch.no_grad():
            collected = collect(returned, self._layouts[request.layout], request.first)
        self._device.synchronize()
        return collected

    def _restore(self, request: wire.Restore) -> Done:
        if self._before is not None:
            self._before.restore()
        self._device.synchronize()
        return Done()

    def _set_threads(self, request: wire.SetThreads) -> Done:
        set_threads(request.count)
        return Done()

    def _finish(self, request: wire.Finish) -> Done:
        self._finished = True
        self._device.synchronize()
        return Done()

    def _profile(self, request: wire.Profile) -> wire.Profiled:
        events = profile(self._models[request.model], self._layouts[request.layout], self._device)
        return wire.Profiled(events=events)

    def _count(self, request: wire.CountCounters) -> Done:
        count(self._models[request.model], self._layouts[request.layout], self._device)
        return Done()

    def _build(self, request: dict[str, Any]) -> wire.Built:
        with self._building:
            self._channel.send(wire.RequestBuild(request=request).to_json())
            return decode(self._channel.receive(), wire.Built)


def main() -> None:
    """Serve the referee on the descriptor named on the command line."""
    Contestant(Channel.from_fd(int(sys.argv[1])), CompilerPatterns.read(BACKENDS_FILE)).serve()
