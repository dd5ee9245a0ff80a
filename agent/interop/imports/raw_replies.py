"""Raw replies: one text file each, with an optional header of `# Name: value` lines above the reply.

A part of the prompt may precede the reply; without a mark between them the two stay together, and extraction
looks behind the last `</think>` anyway.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from kernelwright.agent.interop.imports.imported_reply import ImportedReply
from kernelwright.agent.records.messages import Usage

HEADER: Final = re.compile(r"#\s*(Problem|Model|Generated|Tokens used)\s*:\s*(.*)", re.IGNORECASE)

COUNT: Final = re.compile(r"[0-9]{1,12}")


def read_raw(text: str, origin: str) -> ImportedReply:
    """One reply from a file's text."""
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
