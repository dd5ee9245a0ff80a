"""Time, versions and commit of a record."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_DISTRIBUTIONS: Final = ("kernelwright", "openai", "pydantic", "torch")


def now() -> str:
    """The time: UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def run_stamp() -> str:
    """The time, to the millisecond, as the beginning of a run's id; ids sort by it."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]


def versions() -> dict[str, str]:
    """Return the versions of this program and its dependencies without importing them."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit(folder: Path) -> str | None:
    """Return the commit of a checkout, `-dirty` appended if it has changes; None for other folders."""
    if not (folder / ".git").exists():
        return None
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return f"{head}-dirty" if _git(folder, "status", "--porcelain") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ("git", "-C", str(folder), *arguments), capture_output=True, check=True, text=True, timeout=10
    ).stdout.strip()
