"""A model called from outside believes no sizes that its process names; the protocol's other end is real."""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.evaluator import KernelError
from kernelwright.evaluator.contestant.exceptions import CompilerPatterns
from kernelwright.evaluator.contestant.executor import Contestant
from kernelwright.evaluator.ipc import contestant_messages as wire
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.contestant_messages import Built, Described
from kernelwright.evaluator.ipc.messages import Done
from kernelwright.evaluator.ipc.remote_model import RemoteModel

SOURCE = "import torch\nclass ModelNew:\n    def __call__(self, x): return torch.stack([x, 2 * x])\n"
TENSOR = {"k": "tensor", "i": 0}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate's file is not written among everybody's, nor its module kept."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "candidate", None)


@contextmanager
def opened(described: Described | None = None) -> Iterator[RemoteModel]:
    """A model whose process is a thread of this one; it may lie about what it returns."""
    ours, theirs = socket.socketpair()
    contestant = Contestant(Channel(theirs), CompilerPatterns(*[re.compile("(?!)")] * 3))
    contestant.handlers[wire.Setup] = lambda request: (
        Done()
    )  # it would replace torch's builder in this process
    if described is not None:
        contestant.handlers[wire.Describe] = lambda request: described
    thread = threading.Thread(target=contestant.serve)
    thread.start()
    model = RemoteModel(Channel(ours), _built, lambda: "ended", timeout_s=30)
    try:
        setup = wire.Setup(device="cpu", threads=torch.get_num_threads(), math="fp32", sharing=None)
        model.open("cpu", setup, SOURCE)
        model.construct((), {}, state=None, dtype="")
        yield model
    finally:
        model.close()
        thread.join()
        theirs.close()


def _built(request: object) -> Built:
    return Built(ok=False, path="", module_name="", log="nothing is built here")


def test_memory_is_used_again_for_calls_of_the_same_form() -> None:
    with opened() as model:
        for shape in ((2,), (3,), (2,), (3,)):
            assert model(torch.ones(shape)).tolist() == [[1.0] * shape[0], [2.0] * shape[0]]
        assert len(model._blocks) == 4  # inputs and outputs of two forms


@pytest.mark.parametrize(
    ("tree", "tensors"),
    [
        (TENSOR, [{"dtype": "float32", "shape": [1 << 50]}]),
        (TENSOR, [{"dtype": "float32", "shape": [-2]}]),
        (TENSOR, [{"dtype": "float32", "shape": [-(1 << 40), -(1 << 40)]}]),
        (TENSOR, [{"dtype": "nn", "shape": []}]),
        (TENSOR, [{"shape": []}]),
        (TENSOR, [{"dtype": "float32", "shape": [3]}]),
        ({"k": "tensor", "i": 7}, [{"dtype": "float32", "shape": [2, 2]}]),
        ({"k": "tensor"}, [{"dtype": "float32", "shape": [2, 2]}]),
        ({"k": "dict", "v": [[TENSOR, TENSOR]]}, [{"dtype": "float32", "shape": [2, 2]}]),
        ({"k": "list", "v": [TENSOR, TENSOR]}, [{"dtype": "float32", "shape": [2, 2]}]),
        ({"k": "tensor", "i": -1}, [{"dtype": "float32", "shape": [2, 2]}]),
        ({"k": "device", "v": "garbage"}, []),
        ({"k": "float", "v": "0x1p999999"}, []),
    ],
)
def test_a_process_that_lies_about_its_outputs_is_refused(tree: Any, tensors: Any) -> None:
    with opened(Described(tree=tree, tensors=tensors)) as model, pytest.raises(KernelError):
        model(torch.ones(2))
