"""The files a replay server answers from: where a turn lies, what it says, and the client that writes them.

    <folder>/<problem id or name>/<backend>/NN.md               sample 0, turn NN
    <folder>/<problem id or name>/<backend>/sample-<k>/NN.md    sample k

A file is the reply itself, after an optional head between two lines `---` with `finish_reason`, `label` (who
wrote it) and `reasoning`: each on one line, or as `name: |` with the text below it, indented by two spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider
from kernelwright.evaluator import write_whole

HANDWRITTEN: Final = "handwritten"
_HEAD: Final = re.compile(r"---\n((?:[a-z_]+:[^\n]*\n|  [^\n]*\n|\n)*)---(?:\n|$)")
_FIELD: Final = re.compile(r"([a-z_]+):[ ]?([^\n]*)\n((?:  [^\n]*\n|\n)*)")
_SAMPLE: Final = re.compile(r"sample-([0-9]+)")
_TURN: Final = re.compile(r"([0-9]+)\.md")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded reply."""

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"
    label: str = HANDWRITTEN
    """Its author: `handwritten`, or the model it was recorded from."""


def parse_recording(content: str) -> Recording:
    """A file's content; without a head all of it is the reply."""
    head = _HEAD.match(content)
    if head is None:
        return Recording(text=content)
    fields = {name: _value(line, block) for name, line, block in _FIELD.findall(head.group(1))}
    known = {name: fields[name] for name in ("reasoning", "finish_reason", "label") if name in fields}
    return Recording(text=content[head.end() :], **known)


def format_recording(recording: Recording) -> str:
    """The content of the file that says this; `parse_recording` gives the recording back."""
    lines = [f"finish_reason: {recording.finish_reason}", f"label: {recording.label}"]
    if recording.reasoning:
        lines += ["reasoning: |", *(f"  {line}" for line in recording.reasoning.split("\n"))]
    head = "\n".join(lines)
    return f"---\n{head}\n---\n{recording.text}"


def read_recording(path: Path) -> Recording:
    """Read one file, newlines as they are."""
    return parse_recording(path.read_bytes().decode("utf-8", "replace"))


def write_recording(path: Path, recording: Recording) -> None:
    """Write one file, whole or not at all; lone surrogates, which no UTF-8 file can hold, become `?`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, format_recording(recording).encode("utf-8", "replace"))


class RecordingProvider:
    """Passes requests on to another provider, and writes each reply below a folder."""

    def __init__(self, inner: Provider, folder: Path) -> None:
        self.name = inner.name
        self._inner = inner
        self._folder = folder

    async def complete(self, request: CompletionRequest) -> Completion:
        completion = await self._inner.complete(request)
        recording = Recording(
            text=completion.text,
            reasoning=completion.reasoning,
            finish_reason=safe_name(completion.finish_reason),
            label=safe_name(completion.model),
        )
        write_recording(recording_path(self._folder, request), recording)
        return completion

    async def close(self) -> None:
        await self._inner.close()


def recording_path(folder: Path, request: CompletionRequest) -> Path:
    """The path of a new recording of this turn."""
    base = folder / safe_name(request.problem.rpartition("/")[2]) / safe_name(request.backend)
    return (base / f"sample-{request.sample}" if request.sample else base) / f"{request.turn:02d}.md"


def find_recording(folder: Path, *, problem: str, backend: str, sample: int, turn: int) -> Path | None:
    """The recording that answers this turn; None when the problem has none for the backend.

    A sample beyond those recorded wraps round; a turn beyond the last repeats the last.
    """
    parts = [safe_name(part) for part in problem.split("/")]
    for base in (folder.joinpath(*parts) / safe_name(backend), folder / parts[-1] / safe_name(backend)):
        samples = _samples(base)
        if samples:
            turns = samples[sample % len(samples)]
            return turns[min(turn, len(turns) - 1)]
    return None


def recorded_problems(folder: Path) -> tuple[str, ...]:
    """Names of problems that have recordings, longest first."""
    names: set[str] = set()
    for path in folder.rglob("*.md"):
        parts = path.relative_to(folder).parts[:-1]
        problem = parts[:-2] if parts and _SAMPLE.fullmatch(parts[-1]) else parts[:-1]
        if problem and _TURN.fullmatch(path.name):
            names.add("/".join(problem))
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def safe_name(name: str) -> str:
    """A name as one path component that leads nowhere else."""
    return _UNSAFE.sub("_", name).lstrip(".") or "_"


def _samples(base: Path) -> list[list[Path]]:
    found = {
        int(match[1]): _turns(path) for path in base.glob("*") if (match := _SAMPLE.fullmatch(path.name))
    }
    own = _turns(base)
    if own:
        found[0] = own
    return [found[sample] for sample in sorted(found) if found[sample]]


def _turns(base: Path) -> list[Path]:
    found = {int(match[1]): path for path in base.glob("*") if (match := _TURN.fullmatch(path.name))}
    return [found[turn] for turn in sorted(found)]


def _value(line: str, block: str) -> str:
    if line.strip() != "|":
        return line.strip()
    return "\n".join(text.removeprefix("  ") for text in block.removesuffix("\n").split("\n"))
