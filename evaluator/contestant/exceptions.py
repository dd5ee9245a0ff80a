"""What a contestant says of an exception: its type, its text, and whether a kernel was being compiled."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Final

import torch

from kernelwright.evaluator.ipc.channel import Message

_TEXT_LIMIT: Final = 8000
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_COMPILING: Final = re.compile(
    r"/triton/(?:compiler/|backends/\w+/compiler\.py)|/tilelang/(?:engine|language|transform|backend|cache)/|"
    r"/cutlass/base_dsl/(?:compiler|dsl|ast_preprocessor)\.py"
)
"""Source files of kernel languages that only a compilation passes through."""
_RUNNING: Final = re.compile(
    r"/triton/(?:backends/\w+/driver\.py)|/tilelang/jit/adapter/(?!libgen|wrapper)|"
    r"/cutlass/(?:base_dsl|cutlass_dsl)/\w*jit_executor\.py"
)
"""Those a launch passes through, below a compilation or not."""

_GENERATED: Final = re.compile(r"\nCompilation error:\n(?s:.*?)^(?=\S+\(\d+\): error: )", re.MULTILINE)
"""In TileLang's text the end of the CUDA it wrote, and the warnings before nvcc's first error."""


def failure(error: BaseException) -> Message:
    """The answer to a message whose work raised."""
    frames = traceback.format_exception(error)
    return {
        "op": "failed",
        "type": type(error).__name__,
        "message": _GENERATED.split(_plain(str(error)))[-1].strip()[:_TEXT_LIMIT],
        "traceback": _plain("".join(frames))[-_TEXT_LIMIT:],
        "out_of_memory": isinstance(error, (MemoryError, torch.OutOfMemoryError)),
        "compiling": _was_compiling(error),
    }


def _was_compiling(error: BaseException) -> bool:
    """Whether an exception, or what caused it, came out of a kernel language's compiler."""
    files = [frame.filename for raised in _chain(error) for frame in _frames(raised)]
    return any(map(_COMPILING.search, files)) and not any(map(_RUNNING.search, files))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes; a candidate may have tied them into a ring."""
    seen: set[int] = set()
    raised: BaseException | None = error
    while raised is not None and id(raised) not in seen:
        seen.add(id(raised))
        yield raised
        raised = raised.__cause__ or raised.__context__


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _plain(text: str) -> str:
    return _COLOUR.sub("", text)
