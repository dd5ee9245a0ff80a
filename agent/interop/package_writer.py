"""Makes an installable Python package of saved kernels: source, reference, score and a test for each."""

from __future__ import annotations

import json
import keyword
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernelwright.agent.records.atomic_folder import UnusableExport, appearing
from kernelwright.agent.records.score_policy import ScorePolicy, exclusion_reason, policy_of
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import BACKENDS, Problem, Status

NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NAME_CHARACTERS: Final = 60
"""Characters of a problem's name in the name of a kernel's module."""
CELL_CHARACTERS: Final = 120
"""Characters of a cell in the table of kernels."""
POLICY_CHARACTERS: Final = 600
"""Characters of a table's policy, which is some 200 long."""
RESERVED: Final = frozenset(
    {"agent", "evaluator", "kernelwright", "ninja", "numpy", "pytest", "tests", "torch"}
)
"""Modules that kernels and their tests need, and the folder of the tests."""

_HEADING: Final = "| name | for | speedup | by | licence |\n| --- | --- | --- | --- | --- |"
_SKELETON: Final = files("kernelwright.agent.interop") / "skeleton"
_TEMPLATES: Final = MappingProxyType(
    {
        "{module}/__init__.py": "package.py.in",
        "{module}/dispatch.py": "dispatch.py.in",
        "tests/test_kernels.py": "test_kernels.py.in",
        "pyproject.toml": "pyproject.toml.in",
        "README.md": "README.md.in",
    }
)


def write_package(
    kernels: Sequence[Kernel], references: Mapping[str, Problem], name: str, out: Path
) -> list[str]:
    """Write a package, such as `my-kernels`, to a new or empty folder; return its kernels' names there.

    `references` are problems by the hash of their source.

    Raises:
        UnusableExport: an invalid name, a lost reference, or a folder that is not empty.
        OSError: it cannot be written.
    """
    module = re.sub(r"[-.]+", "_", name).lower()
    if trouble := _name_error(name, module):
        raise UnusableExport(f"{name!r} {trouble}; choose another --name, such as my-kernels")
    missing = [kernel for kernel in kernels if kernel.record.problem_sha not in references]
    if missing:
        raise UnusableExport(
            f"the reference of kernel {missing[0].id} ({missing[0].record.problem}, as it was "
            "evaluated) is not at hand; name its file with --problem"
        )
    named = _named(kernels)
    needed = {"ninja", "torch"} | {
        package.name for kernel in kernels for package in BACKENDS[kernel.record.backend].requires
    }
    values = {
        "NAME": name,
        "MODULE": module,
        "DEPENDENCIES": json.dumps(sorted(needed)),
        "KERNELS": "\n".join(
            ("{", *(f"    {name!r}: {_facts(kernel)!r}," for name, kernel in named.items()), "}")
        ),
        "FIRST": next(iter(named), "NAME"),
        "TABLES": _tables(named),
    }
    with appearing(out) as pending:
        for kernel_name, kernel in named.items():
            folder = pending.path / module / kernel_name
            _write_kernel(folder, kernel, references[kernel.record.problem_sha])
        for place, template in _TEMPLATES.items():
            text = (_SKELETON / template).read_text("utf-8")
            path = pending.path / place.format(module=module)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub("@([A-Z]+)@", lambda found: values[found[1]], text), "utf-8")
    return list(named)


def _name_error(name: str, module: str) -> str:
    if not NAME.fullmatch(name) or not module.isidentifier():
        return "is no package name: letters, digits and dashes, a letter first"
    if keyword.iskeyword(module):
        return "is a word of Python's own and could not be imported"
    needed = {package.module for backend in BACKENDS.values() for package in backend.requires}
    if module in sys.stdlib_module_names | needed | RESERVED:
        return "would hide another package of that name"
    return ""


def _write_kernel(folder: Path, kernel: Kernel, reference: Problem) -> None:
    folder.mkdir(parents=True)
    # A problem's id is text of others: as a literal it cannot end the docstring and go on as code.
    (folder / "__init__.py").write_text(f"{f'Kernel {kernel.id} for {kernel.record.problem}.'!a}\n", "utf-8")
    (folder / "kernel.py").write_bytes(kernel.source.encode("utf-8", "surrogatepass"))
    (folder / "reference.py").write_text(reference.source, "utf-8")
    record = kernel.record.model_dump(mode="json")
    (folder / "score.json").write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", "utf-8")
    (folder / "screening.txt").write_text(f"{kernel.screening()}\n", "utf-8")


def _facts(kernel: Kernel) -> dict[str, object]:
    # No speedup: without its policy it is a number, and `score.json` holds both.
    config = kernel.score.config.model_dump(mode="json", include={"shapes", "dtype", "math", "passes"})
    verified = kernel.score.verification
    sizes = verified.other_sizes if verified else {}
    return {
        "kernel": kernel.id,
        "problem": kernel.record.problem,
        "backend": kernel.record.backend,
        "device": BACKENDS[kernel.record.backend].device,
        "scored_with": config,
        "other_sizes": sorted(size for size, status in sizes.items() if status is Status.PASSED),
        "constant_inputs": list(verified.constant_inputs) if verified else [],
        "effects": list(verified.effects) if verified else [],
        "license": kernel.record.provenance.license,
    }


def _named(kernels: Sequence[Kernel]) -> dict[str, Kernel]:
    """Each kernel once by a name of its own: problems of several folders may have the same last name."""
    named: dict[str, Kernel] = {}
    for kernel in {kernel.folder: kernel for kernel in kernels}.values():
        name, number = _name(kernel), 2
        while name in named:
            name, number = f"{_name(kernel)}_{number}", number + 1
        named[name] = kernel
    return named


def _name(kernel: Kernel) -> str:
    stem = re.sub(r"\W+", "_", kernel.record.problem.rpartition("/")[2]).lower()
    stem = stem[:NAME_CHARACTERS]
    return f"k{stem}_{kernel.id[:12]}" if stem[:1].isdigit() else f"{stem}_{kernel.id[:12]}"


def _tables(named: Mapping[str, Kernel]) -> str:
    """A table for each policy, the most used first; scores of two never share one."""
    tables: defaultdict[ScorePolicy, list[str]] = defaultdict(list)
    for name, kernel in named.items():
        tables[policy_of(kernel.score)].append(_row(name, kernel))
    parts = [
        "\n".join((f"Policy {policy.id}: {_cell(str(policy), POLICY_CHARACTERS)}", "", _HEADING, *rows))
        for policy, rows in sorted(tables.items(), key=lambda table: -len(table[1]))
    ]
    if reasons := sorted({exclusion_reason(kernel.score) for kernel in named.values()} - {""}):
        parts.append(f"‡: not to be compared: {'; '.join(reasons)}.")
    return "\n\n".join(parts)


def _row(name: str, kernel: Kernel) -> str:
    best, origin = kernel.score, kernel.record.provenance
    mark = "‡" if exclusion_reason(best) else ""
    speed = f"{best.speedup:.2f}×{mark}" if best.speedup is not None else "not measured"
    if best.measurement:
        interval = best.measurement.interval
        speed += f" ({interval.low:.2f}–{interval.high:.2f}, against {best.measurement.against})"
    cells = (name, kernel.record.problem, speed, origin.model, origin.license or "not stated")
    return f"| {' | '.join(_cell(str(cell or '-')) for cell in cells)} |"


def _cell(text: str, most: int = CELL_CHARACTERS) -> str:
    """Text of others in a table of Markdown: on one line, without marks that mean something there."""
    return re.sub(r"[^\w .,:;/+×–·‡()-]", "_", " ".join(text.split()))[:most]
