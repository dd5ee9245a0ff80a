"""Reads the replies in a file or a folder.

A raw reply is one text file, with an optional header of `# Name: value` lines above it. A part of the prompt
may precede the reply; without a mark between them the two stay together, and extraction looks behind the last
`</think>` anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kernelwright.agent.interop.imports.chat_files import read_chats
from kernelwright.agent.interop.imports.imported_reply import ImportedReply, OnSkip, UnreadableImport
from kernelwright.agent.records.messages import Usage

MAX_BYTES: Final = 1 << 30

KERNEL_FILE: Final = re.compile(
    r"level_(?P<level>\w+)_problem_(?P<problem>\w+?)_sample_(?P<sample>\d+)_kernel\.py"
)
"""The names of candidates in a KernelBench run folder."""

HEADER: Final = re.compile(r"#\s*(Problem|Model|Generated|Tokens used)\s*:\s*(.*)", re.IGNORECASE)
COUNT: Final = re.compile(r"[0-9]{1,12}")


def read_replies(path: Path, on_skip: OnSkip = lambda why: None) -> Iterator[ImportedReply]:
    """Every reply a file or a run folder holds; `on_skip` is called last, for the parts without one.

    Raises:
        UnreadableImport: missing, not text, or without any reply.
    """
    skipped: list[str] = []
    is_empty = True
    for reply in _read_folder(path, skipped.append) if path.is_dir() else _read_file(path, skipped.append):
        is_empty = False
        yield reply
    if is_empty:
        first = next(iter(skipped), f"{path} holds no reply")
        raise UnreadableImport(first + (f"; nor do {len(skipped) - 1} more" if len(skipped) > 1 else ""))
    for why in skipped:
        on_skip(why)


def _read_file(path: Path, on_skip: OnSkip) -> Iterator[ImportedReply]:
    text = _read(path)
    if path.suffix in (".jsonl", ".ndjson") or (path.suffix == ".json" and text.lstrip()[:1] in ("{", "[")):
        yield from read_chats(text, str(path), on_skip)
    elif named := KERNEL_FILE.fullmatch(path.name):
        yield _kernel_file(path, named, text)
    elif path.suffix == ".py":
        yield ImportedReply(origin=str(path), text=text, problem=path.stem, is_module=True)
    else:
        yield _raw_reply(text, str(path))


def _read_folder(folder: Path, on_skip: OnSkip) -> Iterator[ImportedReply]:
    files = {path: named for path in folder.iterdir() if (named := KERNEL_FILE.fullmatch(path.name))}
    if not files:
        raise UnreadableImport(
            f"{folder} is no KernelBench run folder: no file is called level_L_problem_P_sample_S_kernel.py"
        )
    for path in sorted(files):
        try:
            text = _read(path)
        except UnreadableImport as error:
            on_skip(str(error))
        else:
            yield _kernel_file(path, files[path], text)


def _kernel_file(path: Path, named: re.Match[str], text: str) -> ImportedReply:
    return ImportedReply(
        origin=str(path),
        text=text,
        problem=f"level{named['level']}/{named['problem']}",
        model=path.resolve().parent.name,
        is_module=True,
    )


def _raw_reply(text: str, origin: str) -> ImportedReply:
    fields: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    start = 0
    for number, line in enumerate(lines):
        found = HEADER.fullmatch(line.strip())
        if found is None:
            break
        fields[found[1].lower()] = found[2].strip()
        start = number + 1
    body = "".join(lines[start:]).lstrip("\r\n") if fields else text
    tokens = re.sub(r"[\s,_]", "", fields.get("tokens used", ""))
    return ImportedReply(
        origin=origin,
        text=body,
        problem=fields.get("problem") or None,
        model=fields.get("model") or None,
        generated_at=_read_time(fields.get("generated", "")),
        usage=Usage(completion_tokens=int(tokens) if COUNT.fullmatch(tokens) else 0),
    )


def _read_time(text: str) -> str | None:
    for form in ("%Y%m%d_%H%M%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return text or None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableImport(f"{path} is larger than {MAX_BYTES} bytes")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UnreadableImport(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableImport(f"{path} is not UTF-8 text: byte {error.start} is invalid") from None
