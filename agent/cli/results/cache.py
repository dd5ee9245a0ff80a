"""`kernelwright cache`: builds, baselines and replies saved for next time, shown by size and removed."""

from __future__ import annotations

import shutil
from types import MappingProxyType
from typing import Annotated, Final

import typer

from kernelwright.agent.cli.results.runs import Yes, confirm, folder_bytes, megabytes
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import out, print_json, print_table
from kernelwright.agent.cli.terminal.failures import say
from kernelwright.agent.setup.usage_error import UsageError, unknown

app = typer.Typer(no_args_is_help=True, help="Show and remove what is saved for next time.")

KINDS: Final = MappingProxyType(
    {
        "builds": "compiled kernels and precompiled headers; built again when needed",
        "baselines": "measured baselines and inspected problems; measured again when needed",
        "completions": "replies of models; asking again costs money",
    }
)
"""Folders of the cache, and their use."""


@app.command("list", hidden=True)
@app.command("show")
def show_cache(cache: options.Cache = None, json: options.Json = False) -> None:
    """Show the cache's folders, their sizes and their use."""
    from kernelwright.evaluator import default_cache

    root = cache or default_cache()
    kinds = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    sizes = {kind: folder_bytes(root / kind) for kind in kinds}
    if json:
        print_json({"folder": str(root.resolve()), "bytes": sizes})
        return
    rows = [(kind, megabytes(size), KINDS.get(kind, "")) for kind, size in sizes.items()]
    print_table("kind >size use", [*rows, ("all", megabytes(sum(sizes.values())), "")])
    out().print(f"folder   {root.resolve()}", soft_wrap=True)


@app.command("rm")
def remove_cache(
    kinds: Annotated[
        list[str],
        options.argument(
            "builds, baselines, completions, or all.",
            "KIND...",
            autocompletion=completion.among([*KINDS, "all"]),
        ),
    ],
    cache: options.Cache = None,
    yes: Yes = False,
) -> None:
    """Remove parts of the cache; let no run go on meanwhile."""
    from kernelwright.evaluator import default_cache

    root = cache or default_cache()
    wanted = list(KINDS) if "all" in kinds else list(dict.fromkeys(kinds))
    for kind in wanted:
        if kind not in KINDS:
            raise UsageError(unknown("kind of cache", kind, [*KINDS, "all"]))
    for kind in wanted:
        folder = root / kind
        if folder.is_dir() and confirm(f"{folder}", folder, yes):
            size = megabytes(folder_bytes(folder))
            shutil.rmtree(folder)
            say(f"removed {kind}, {size}")
