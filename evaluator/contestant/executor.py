"""The contestant's main loop: obeys the referee's messages, one candidate, one process.

Started inside the sandbox with the number of its channel, from a copy of just the modules it needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.evaluator.contestant import calls, load_inline_shim
from kernelwright.evaluator.contestant.exceptions import BACKENDS_FILE, CompilerPatterns, failure
from kernelwright.evaluator.contestant.guarded_memory import GuardedMemory
from kernelwright.evaluator.contestant.output_places import where
from kernelwright.evaluator.contestant.policy import WARM_UP_S, WARM_UPS
from kernelwright.evaluator.contestant.profiling import count, profile
from kernelwright.evaluator.devices import Block, Device, open_device
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed
from kernelwright.evaluator.ipc.messages import Dispatcher, Message, Request, decode
from kernelwright.evaluator.ipc.model_init import apply_math, construct, give, load_state
from kernelwright.evaluator.ipc.model_state import ModelState
from kernelwright.evaluator.ipc.policy import MAX_KEPT
from kernelwright.evaluator.ipc.tensor_layout import exact_copy, view
from kernelwright.evaluator.ipc.tensor_tree import dtype_from, dtype_name, flatten, unflatten
from kernelwright.evaluator.ipc.weight_spread import Spread

_OPENMP = re.compile(r"(?:/.*)?/lib(?:gomp|omp|iomp5)[^/\n]*\.so[^/\n]*$", re.MULTILINE)
"""Paths of OpenMP runtimes in a process's memory map."""
_TOOL_VARIABLES = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")


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
        self._layouts: dict[str, calls.CallLayout] = {}
        self._returned: list[Any] = []
        self._held: tuple[Any, ...] = ()
        """Tensors kept alive until the outputs of the last run are their own."""
        self._ran: Any = None
        """The model of the last run."""
        self._kept: dict[str, list[Any]] = {}
        """Outputs of earlier calls that their caller keeps, by layout."""
        self._before: ModelState | None = None
        self._guarded: GuardedMemory | None = None
        self.handlers: dict[type[Request[Any]], Callable[[Any], Message | None]] = {
            wire.Setup: self._setup,
            wire.Attach: self._attach,
            wire.Detach: self._detach,
            wire.Load: self._load,
            wire.Construct: self._construct,
            wire.LayOut: self._lay_out,
            wire.MakeReady: self._make_ready,
            wire.Run: self._run,
            wire.Own: self._own,
            wire.Stain: self._stain,
            wire.Guard: self._guard,
            wire.Disturb: self._disturb,
            wire.Collect: self._collect,
            wire.Describe: self._describe,
            wire.Overwrite: self._overwrite,
            wire.Drop: self._drop,
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
                answer: Message = dispatcher.handle(received)
            except BaseException as error:  # noqa: BLE001  (the candidate's code may raise anything at all)
                answer = failure(error, self._compilers)
            self._channel.send(answer.to_json())

    def _setup(self, request: wire.Setup) -> None:
        torch.set_num_threads(request.threads)
        apply_math(request.math)
        self._device = open_device(request.device)
        self._sharing = open_device(request.sharing) if request.sharing else self._device
        load_inline_shim.install(self._build)

    def _attach(self, request: wire.Attach) -> None:
        fds = self._channel.take_fds()
        for descriptor in request.blocks:
            needed = fds[: int(descriptor["fds"])]
            del fds[: len(needed)]
            self._blocks.append(self._sharing.attach(descriptor, needed))

    def _detach(self, request: wire.Detach) -> None:
        self._returned, self._held = [], ()
        self._kept.pop(request.layout, None)
        del self._layouts[request.layout]
        self._device.synchronize()
        for block in request.blocks:
            self._blocks[block].close()
        self._device.trim()

    def _load(self, request: wire.Load) -> None:
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

    def _construct(self, request: wire.Construct) -> None:
        def leaf(index: int) -> torch.Tensor:
            slot = request.slots[index]
            return exact_copy(view(self._blocks[slot["block"]].data, slot, 0), self._device.torch_device)

        args, kwargs = (unflatten(tree, leaf) for tree in (request.args, request.kwargs))
        model_class, spread = getattr(self._module, request.class_name), Spread.from_message(request.spread)
        model = construct(model_class, args, kwargs, request.seed, vary=request.vary, spread=spread)
        if isinstance(model, torch.nn.Module):
            model.to(self._device.torch_device)
            if request.dtype:
                model.to(dtype_from(request.dtype))
            first = len(request.slots) - len(request.given)
            give(model, {name: leaf(first + index) for index, name in enumerate(request.given)})
            if request.state is not None:
                first -= len(request.state)
                load_state(model, {name: leaf(first + index) for index, name in enumerate(request.state)})
        if request.compile:
            model = torch.compile(model)
        self._models[request.model] = model

    def _lay_out(self, request: wire.LayOut) -> None:
        self._layouts[request.layout] = calls.prepare(request, self._blocks, self._device.torch_device)

    def _make_ready(self, request: wire.MakeReady | wire.Run) -> None:
        layout = self._layouts[request.layout]
        self._ran = self._models[request.model]
        self._before = ModelState(self._ran, layout.state, without_own=True) if request.restore else None
        layout.ready(request.first, request.count)

    def _run(self, request: wire.Run) -> wire.Ran:
        if not request.ready:
            self._make_ready(request)
        self._returned, self._held = [], ()
        layout, gate = self._layouts[request.layout], self._gate(request)
        model, guarded = self._models[request.model], self._guarded
        if gate is not None and request.waits:
            if layout.device.type == "cpu":
                self._warm_up(request, layout)
            gate.queued()
            self._device.waits_for(gate.word, gate.value)
            self._device.synchronize()
            gate = None
        try:
            with contextlib.nullcontext() if guarded is None else guarded.around(model):
                called = calls.run(model, layout, self._device, request, gate=gate)
                self._returned, self._held = called.returned, called.held
        except BaseException:
            self._end_guard(layout)
            raise
        return wire.Ran(inner_ms=called.inner_ms, places=called.places)

    def _warm_up(self, request: wire.Run, layout: calls.CallLayout) -> None:
        """Make calls on copies of what lies there, so that caches and threads are as in a batch."""
        until = time.monotonic() + WARM_UP_S
        for _ in range(WARM_UPS):
            args, kwargs = layout.private(request.first, lambda number, tensor: tensor.clone())
            with torch.no_grad():
                layout.call(self._models[request.model], args, kwargs)
            if request.restore and self._before is not None:
                self._before.restore()
            if time.monotonic() > until:
                break

    def _own(self, request: wire.Own) -> wire.Owned:
        layout = self._layouts[request.layout]
        copied_ms, self._returned = calls.own(self._returned, layout, self._device)
        self._held = ()
        return wire.Owned(copied_ms=copied_ms, where=where(self._returned, layout.device))

    def _gate(self, request: wire.Run) -> calls.GateWait | None:
        if request.gate_block is None:
            return None
        word = self._blocks[request.gate_block].data
        return calls.GateWait(
            word,
            request.gate_value,
            queued=lambda: self._channel.send(wire.Queued().to_json()),
            spoils=request.spoil,
        )

    def _guard(self, request: wire.Guard) -> None:
        self._guarded = GuardedMemory(self._device, request)
        self._layouts[request.layout].copy = self._guarded.argument

    def _stain(self, request: wire.Stain) -> None:
        self._device.stain()
        self._device.synchronize()

    def _disturb(self, request: wire.Disturb) -> None:
        self._device.disturb(request.kind)

    def _collect(self, request: wire.Collect) -> wire.Collected:
        returned = self._returned
        if request.kept is not None:
            returned = [self._kept[request.layout][request.kept]]
        with torch.no_grad():
            layout = self._layouts[request.layout]
            collected = calls.collect(returned, layout, request.first)
            if not collected.kind and layout.state:
                collected = calls.collect_state(self._ran, layout.state)
        self._device.synchronize()
        del returned  # before what it lies in is unmapped
        return self._end_guard(self._layouts[request.layout]) or collected

    def _end_guard(self, layout: calls.CallLayout) -> wire.Collected | None:
        """Unmap what was guarded; complain where it was written to beyond its ends."""
        guarded, self._guarded = self._guarded, None
        if guarded is None:
            return None
        layout.copy, self._returned, self._held = None, [], ()
        overrun = guarded.overrun()
        guarded.unmap_unused()
        return wire.Collected(kind="memory", complaint=overrun) if overrun else None

    def _describe(self, request: wire.Describe) -> wire.Described:
        tree, leaves = flatten(self._returned[0], numbers_as_tensors=True)
        tensors = [{"dtype": dtype_name(leaf.dtype), "shape": list(leaf.shape)} for leaf in leaves]
        return wire.Described(tree=tree, tensors=tensors)

    def _overwrite(self, request: wire.Overwrite) -> None:
        calls.overwrite(self._returned, self._layouts[request.layout], request.first)
        self._device.synchronize()

    def _drop(self, request: wire.Drop) -> None:
        kept = self._kept.setdefault(request.layout, [])
        if request.keep:
            kept.append(self._returned[-1])
            del kept[1 : len(kept) - MAX_KEPT + 1]
        self._returned = []
        self._device.synchronize()

    def _restore(self, request: wire.Restore) -> None:
        if self._before is not None:
            self._before.restore()
        self._device.synchronize()

    def _set_threads(self, request: wire.SetThreads) -> None:
        """Set them in torch and every loaded OpenMP runtime: an extension may have brought its own."""
        torch.set_num_threads(request.count)
        for path in set(_OPENMP.findall(Path("/proc/self/maps").read_text())):
            ctypes.CDLL(path).omp_set_num_threads(request.count)

    def _finish(self, request: wire.Finish) -> None:
        self._finished = True
        self._device.synchronize()

    def _profile(self, request: wire.Profile) -> wire.Profiled:
        events = profile(self._models[request.model], self._layouts[request.layout], self._device)
        return wire.Profiled(events=events)

    def _count(self, request: wire.CountCounters) -> None:
        count(self._models[request.model], self._layouts[request.layout], self._device)

    def _build(self, request: dict[str, Any]) -> wire.Built:
        with self._building:
            self._channel.send(wire.RequestBuild(request=request).to_json())
            return decode(self._channel.receive(), wire.Built)


def hide_tools() -> None:
    """Remove variables that name a tool, which the tool has read, from `os.environ` and from where
    `/proc/self/environ` shows what a process began with."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    for name in _TOOL_VARIABLES:
        value = getenv(name.encode())
        if value:
            text = os.fsencode(f"{name}={os.environ.pop(name)}")
            ctypes.memset(value - len(name) - 1, 0, len(text))


def main() -> None:
    """Serve the referee on the descriptor named on the command line."""
    hide_tools()
    Contestant(Channel.from_fd(int(sys.argv[1])), CompilerPatterns.read(BACKENDS_FILE)).serve()
