"""The contestant's main loop: obeys the referee's messages, one candidate, one process.

Started inside the sandbox with the number of its channel, from a copy of just the modules it needs.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import threading
import types
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
from kernelwright.evaluator.ipc.channel import Channel, ChannelClosed, Message
from kernelwright.evaluator.ipc.model_init import construct, load_state
from kernelwright.evaluator.ipc.model_state import ModelState
from kernelwright.evaluator.ipc.precision import apply_math
from kernelwright.evaluator.ipc.tensor_layout import Slot, exact_copy, view
from kernelwright.evaluator.ipc.tensor_tree import Tree, dtype_from, unflatten


class Contestant:
    """State of one contestant: its device, its shared blocks, the loaded module and its models."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._compilers = CompilerPatterns.read(BACKENDS_FILE)
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

    def serve(self) -> None:
        """Answer messages until the referee hangs up."""
        operations = {
            "setup": self._setup,
            "attach": self._attach,
            "load": self._load,
            "construct": self._construct,
            "prepare": self._prepare,
            "ready": self._ready,
            "run": self._run,
            "stain": self._stain,
            "collect": self._collect,
            "restore": self._restore,
            "profile": self._profile,
            "count": self._count,
            "threads": self._threads,
            "finish": self._finish,
        }
        self._channel.send({"op": "ready"})
        while not self._finished:
            try:
                message = self._channel.receive(with_fds=True)
            except ChannelClosed:
                return
            try:
                reply = operations[message["op"]](message)
            except BaseException as error:  # noqa: BLE001  (the candidate's code may raise anything at all)
                reply = failure(error, self._compilers)
            self._channel.send(reply)

    def _setup(self, message: Message) -> Message:
        torch.set_num_threads(int(message["threads"]))
        apply_math(str(message["math"]))
        self._device = open_device(message["device"])
        self._sharing = open_device(message["sharing"]) if message.get("sharing") else self._device
        load_inline_shim.install(self._build)
        return {"op": "done"}

    def _attach(self, message: Message) -> Message:
        fds = self._channel.take_fds()
        for descriptor in message["blocks"]:
            needed = fds[: int(descriptor["fds"])]
            del fds[: len(needed)]
            self._blocks.append(self._sharing.attach(descriptor, needed))
        return {"op": "done"}

    def _load(self, message: Message) -> Message:
        path = Path(tempfile.gettempdir()) / "candidate.py"
        path.write_text(message["source"], "utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = self._module
        spec.loader.exec_module(self._module)
        vars(self._module).update(message["overrides"])
        if not callable(getattr(self._module, message["class"], None)):
            raise AttributeError(f"the module defines no class {message['class']}")
        return {"op": "done"}

    def _construct(self, message: Message) -> Message:
        args, kwargs = (self._value(message[part], message["slots"]) for part in ("args", "kwargs"))
        model = construct(
            getattr(self._module, message["class"]), args, kwargs, int(message["seed"]), vary=message["vary"]
        )
        if isinstance(model, torch.nn.Module):
            model.to(self._device.torch_device)
            if message["dtype"]:
                model.to(dtype_from(message["dtype"]))
            if message["state"] is not None:
                names, tree = message["state"]["names"], message["state"]["tree"]
                load_state(model, dict(zip(names, self._value(tree, message["slots"]), strict=True)))
        if message["compile"]:
            model = torch.compile(model)
        self._models[message["model"]] = model
        return {"op": "done"}

    def _prepare(self, message: Message) -> Message:
        self._layouts[message["layout"]] = prepare(message, self._blocks, self._device.torch_device)
        return {"op": "done"}

    def _ready(self, message: Message) -> Message:
        """Note the model's state and make arguments for a run, before it is on any clock."""
        self._before = ModelState(self._models[message["model"]]) if message["restore"] else None
        self._layouts[message["layout"]].ready(int(message["first"]), int(message["count"]))
        return {"op": "done"}

    def _run(self, message: Message) -> Message:
        if not message["ready"]:
            self._ready(message)
        model = self._models[message["model"]]
        layout, gate = self._layouts[message["layout"]], self._gate(message["gate"])
        batch = CallBatch(*(int(message[name]) for name in ("first", "count", "lead")))
        inner_ms, self._returned = run(model, layout, self._device, batch, gate=gate)
        return {"op": "done", "inner_ms": inner_ms, "where": where(self._returned, layout)}

    def _gate(self, gate: dict[str, int] | None) -> GateWait | None:
        if gate is None:
            return None
        word = self._blocks[gate["block"]].data
        return GateWait(word, gate["value"], lambda: self._channel.send({"op": "queued"}))

    def _stain(self, message: Message) -> Message:
        """Leave NaN where kernels may find what they have not written."""
        del message
        self._device.stain()
        self._device.synchronize()
        return {"op": "done"}

    def _collect(self, message: Message) -> Message:
        """Hand over what the last run returned."""
        returned, self._returned = self._returned, []
        with torch.no_grad():
            kind, complaint = collect(returned, self._layouts[message["layout"]], int(message["first"]))
        self._device.synchronize()
        return {"op": "done", "kind": kind, "complaint": complaint}

    def _restore(self, message: Message) -> Message:
        """Put the state back that was noted before the last run."""
        del message
        if self._before is not None:
            self._before.restore()
        self._device.synchronize()
        return {"op": "done"}

    def _threads(self, message: Message) -> Message:
        set_threads(int(message["count"]))
        return {"op": "done"}

    def _finish(self, message: Message) -> Message:
        """End in good order, as tools that report at the end need it."""
        del message
        self._finished = True
        self._device.synchronize()
        return {"op": "done"}

    def _profile(self, message: Message) -> Message:
        layout = self._layouts[message["layout"]]
        return {"op": "done", "events": profile(self._models[message["model"]], layout, self._device)}

    def _count(self, message: Message) -> Message:
        count(self._models[message["model"]], self._layouts[message["layout"]], self._device)
        return {"op": "done"}

    def _value(self, tree: Tree, slots: list[Slot]) -> Any:
        def leaf(index: int) -> torch.Tensor:
            return exact_copy(
                view(self._blocks[slots[index]["block"]].data, slots[index], 0), self._device.torch_device
            )

        return unflatten(tree, leaf)

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._building:
            self._channel.send({"op": "build", "request": request})
            reply: dict[str, Any] = self._channel.receive()
            return reply


def main() -> None:
    """Serve the referee on the descriptor named on the command line."""
    Contestant(Channel.from_fd(int(sys.argv[1]))).serve()
