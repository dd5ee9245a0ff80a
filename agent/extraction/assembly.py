"""Puts a module together that a model split over several blocks of one answer."""

from __future__ import annotations

from typing import Final

from kernelwright.agent.extraction.code_fences import C_LANGUAGES, Block
from kernelwright.agent.extraction.python_modules import Module, parse, read_module

_CUDA: Final = frozenset({"cu", "cuda"})


def assemble(module: Module, earlier: list[Block], later: list[Block]) -> str:
    """The module's code with what it lacks put before it, or unchanged when that does not help.

    Python blocks before it are taken, nearest first, when they bind names that it uses and nowhere binds; a
    block that defines `ModelNew` itself only for an excerpt without imports (a whole module stands for
    itself, and its mistakes stay its own). A C++ or CUDA block becomes the string that a `cpp_sources` or
    `cuda_sources` names.
    """
    if not module.unresolved:
        return module.code
    parts = [module.code]
    lacking = set(module.unresolved)
    for block in reversed(earlier):
        if not lacking or not block.may_be_python:
            continue
        other = parse(block.code)
        if other.tree is None or not other.bound & lacking:
            continue
        if module.imports_anything and read_module(block.code).is_model:
            continue
        parts.insert(0, block.code)
        lacking = (lacking | other.unresolved) - other.bound
    parts = [*_sources(module, lacking, [*earlier, *later]), *parts]
    merged = read_module("\n\n".join(part.strip("\n") for part in parts))
    return merged.code if merged.is_model and merged.unresolved < module.unresolved else module.code


def _sources(module: Module, lacking: set[str], blocks: list[Block]) -> list[str]:
    native = [block for block in blocks if block.language in C_LANGUAGES and block.closed]
    cuda = [block.code for block in native if block.language in _CUDA]
    cpp = [block.code for block in native if block.language not in _CUDA]
    if not cuda and len(cpp) == 1 and not set(module.source_names("cpp_sources")) & lacking:
        cuda, cpp = cpp, []
    found: list[str] = []
    for keyword, sources in (("cuda_sources", cuda), ("cpp_sources", cpp)):
        names = [name for name in module.source_names(keyword) if name in lacking]
        if len(names) == len(sources) == 1:
            found.append(f"{names[0]} = {_literal(sources[0])}")
    return found


def _literal(source: str) -> str:
    if "'''" in source or source.endswith(("'", "\\")) or "\\" in source[-2:]:
        return repr(source)
    return f"r'''\n{source}'''"
