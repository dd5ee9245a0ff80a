"""The lean headers' toolbox, which takes a minute to make: kept between test runs, handed to each."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


def put(toolbox: Path, place: Path) -> None:
    """Copy a toolbox, all of it at once; the first of several test processes wins."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix=".", dir=place.parent))
    # Precompiled headers are large, and tests look how they come to be.
    shutil.copytree(toolbox, copy, ignore=shutil.ignore_patterns("precompiled"), dirs_exist_ok=True)
    try:
        copy.rename(place)
    except OSError:
        shutil.rmtree(copy)


def keep(toolbox: Path, folder: Path) -> None:
    """Keep a toolbox for later test runs, instead of those before; its name is its content address."""
    if not (folder / toolbox.name).exists():
        for old in folder.glob("[!.]*"):
            shutil.rmtree(old)
        put(toolbox, folder / toolbox.name)


def hand_over(folder: Path, builds: Path) -> None:
    """Give a build cache what is kept."""
    for kept in folder.glob("[!.]*"):
        put(kept, builds / "toolboxes" / kept.name)
