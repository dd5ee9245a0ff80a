"""Names the version of this evaluator: the distribution's, and a hash of its sources."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path


def distribution_version(name: str = "kernelwright") -> str:
    """An installed distribution's version; unknown where it is none, as for a bare copy of the source."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def source_sha() -> str:
    """Hash of every source file of this package, names included, which identifies the evaluator."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".h", ".cpp") and path.is_file():
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
