"""Describes an exception: its type, its text, and that a kernel was being compiled."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kernelwright.evaluator.devices import is_device_full
from kernelwright.evaluator.ipc.contestant_messages import Failed
from kernelwright.evaluator.ipc.policy import MAX_NAME, MAX_REPORT

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
BACKENDS_FILE: Final = Path(__file__).parents[1] / "backends.json"
"""All backends as records, written into the image by the driver."""


@dataclass(frozen=True, slots=True)
class CompilerPatterns:
    """Patterns that tell exceptions of kernel languages' compilers from others."""

    compiling: re.Pattern[str]
    """Source files that only a compilation passes through."""
    launching: re.Pattern[str]
    """Source files that a launch passes through, inside or outside such files."""
    preamble: re.Pattern[str]
    """Text of an exception before the compiler's own first error."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Take the patterns from a file of backends."""
        rows = json.loads(path.read_text("utf-8"))
        return cls(*(_either(rows, key) for key in ("compiler_frames", "launch_frames", "error_preamble")))


def failure(error: BaseException, patterns: CompilerPatterns) -> Failed:
    """The answer to a request whose work raised."""
    frames = traceback.format_exception(error)
    return Failed(
        type=type(error).__name__[:MAX_NAME],
        message=patterns.preamble.split(_plain(str(error)))[-1].strip()[:MAX_REPORT],
        traceback=_plain("".join(frames))[-MAX_REPORT:],
        out_of_memory=isinstance(error, MemoryError) or is_device_full(error),
        compiling=_was_compiling(error, patterns),
    )


def _was_compiling(error: BaseException, patterns: CompilerPatterns) -> bool:
    raised = _chain(error)
    files = [frame.filename for each in raised for frame in traceback.extract_tb(each.__traceback__)]
    return any(map(patterns.compiling.search, files)) and not any(map(patterns.launching.search, files))


def _either(rows: Iterable[dict[str, str]], key: str) -> re.Pattern[str]:
    """One pattern for all backends that have one; matches nothing where none has."""
    return re.compile("|".join(f"(?:{row[key]})" for row in rows if row[key]) or r"(?!)", re.MULTILINE)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes; a candidate may have tied them into a ring."""
    seen: set[int] = set()
    raised: BaseException | None = error
    while raised is not None and id(raised) not in seen:
        seen.add(id(raised))
        yield raised
        raised = raised.__cause__ or raised.__context__


def _plain(text: str) -> str:
    return _COLOUR.sub("", text)
