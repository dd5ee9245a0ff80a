"""Makes an installable Python package of saved kernels: source, reference, score and a test for each."""

from __future__ import annotations

import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import BACKENDS, Problem, Record

NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NAME_CHARACTERS: Final = 60
"""Characters of a problem's name in the name of a kernel's module."""
CELL_CHARACTERS: Final = 120
"""Characters of a cell in the table of kernels."""
RESERVED: Final = frozenset(
    {"agent", "evaluator", "kernelwright", "ninja", "numpy", "pytest", "tests", "torch"}
)
"""Modules that kernels and their tests need, and the folder of the tests."""

_SKELETON: Final = files("kernelwright.agent.interop") / "skeleton"


class UnusablePackage(Exception):
    """A package that cannot be made; the message names the way out."""


class PackageName(Record):
    """The name and version of a package."""

    name: str
    """The distribution, such as `my-kernels`."""
    version: str = "0.1.0"

    @property
    def module(self) -> str:
        """The module to import."""
        return re.sub(r"[-.]+", "_", self.name).lower()


def write_package(
    kernels: Sequence[Kernel], references: Mapping[str, Problem], wanted: PackageName, out: Path
) -> list[str]:
    """Write a package to a new or empty folder; return the names of its kernels there.

    `references` are problems by the hash of their source.

    Raises:
        UnusablePackage: an invalid name, a lost reference, or a folder that is not empty.
        OSError: it cannot be written.
    """
    if trouble := _name_error(wanted):
        raise UnusablePackage(f"{wanted.name!r} {trouble}; choose another --name, such as my-kernels")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UnusablePackage(f"{out} is not empty; choose a new folder for --out")
    missing = [kernel for kernel in kernels if kernel.record.problem_sha not in references]
    if missing:
        raise UnusablePackage(
            f"the reference of kernel {missing[0].id} ({missing[0].record.problem}, as it was "
            "evaluated) is not at hand; name its file with --problem"
        )
    named = {_name(kernel): kernel for kernel in kernels}
    module = out / wanted.module
    for name, kernel in named.items():
        _write_kernel(module / name, kernel, references[kernel.record.problem_sha])
    facts = {name: _facts(kernel) for name, kernel in named.items()}
    _fill(module / "__init__.py", "package.py.in", KERNELS=_literal(facts))
    _fill(out / "tests" / "test_kernels.py", "test_kernels.py.in", PACKAGE=wanted.module)
    needed = {"ninja", "torch"} | {
        package.name for kernel in kernels for package in BACKENDS[kernel.record.backend].requires
    }
    _fill(
        out / "pyproject.toml",
        "pyproject.toml.in",
        NAME=json.dumps(wanted.name),
        VERSION=json.dumps(wanted.version),
        DEPENDENCIES=json.dumps(sorted(needed)),
        MODULE=json.dumps(wanted.module),
    )
    _fill(
        out / "README.md",
        "README.md.in",
        NAME=wanted.name,
        MODULE=wanted.module,
        FIRST=next(iter(named), "NAME"),
        ROWS="\n".join(_row(name, kernel) for name, kernel in named.items()),
    )
    return list(named)


def _name_error(wanted: PackageName) -> str:
    if not NAME.fullmatch(wanted.name) or not wanted.module.isidentifier():
        return "is no package name: letters, digits and dashes, a letter first"
    if keyword.iskeyword(wanted.module):
        return "is a word of Python's own and could not be imported"
    needed = {package.module for backend in BACKENDS.values() for package in backend.requires}
    if wanted.module in sys.stdlib_module_names | needed | RESERVED:
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
    return {
        "kernel": kernel.id,
        "problem": kernel.record.problem,
        "backend": kernel.record.backend,
        "device": BACKENDS[kernel.record.backend].device,
        "speedup": kernel.score.speedup,
        "license": kernel.record.provenance.license,
    }


def _name(kernel: Kernel) -> str:
    stem = re.sub(r"\W+", "_", kernel.record.problem.rpartition("/")[2]).lower()
    stem = stem[:NAME_CHARACTERS]
    return f"k{stem}_{kernel.id[:12]}" if stem[:1].isdigit() else f"{stem}_{kernel.id[:12]}"


def _literal(facts: Mapping[str, Mapping[str, object]]) -> str:
    lines = [f"    {name!r}: {dict(fact)!r}," for name, fact in facts.items()]
    return "\n".join(("{", *lines, "}"))


def _fill(path: Path, template: str, **values: str) -> None:
    text = (_SKELETON / template).read_text("utf-8")
    text = re.sub("@([A-Z]+)@", lambda found: values[found[1]], text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _row(name: str, kernel: Kernel) -> str:
    best, origin = kernel.score, kernel.record.provenance
    speed = f"{best.speedup:.2f}×" if best.speedup is not None else "not measured"
    if best.measurement:
        interval = best.measurement.interval
        speed += f" ({interval.low:.2f}–{interval.high:.2f}, against {best.measurement.against})"
    device = best.environment.device_name if best.environment else "unknown"
    cells = (name, kernel.record.problem, speed, device, origin.model, origin.license or "not stated")
    return f"| {' | '.join(_cell(str(cell or '-')) for cell in cells)} |"


def _cell(text: str) -> str:
    """Text of others in a table of Markdown: on one line, without marks that mean something there."""
    return re.sub(r"[^\w .,:;/+×–()-]", "_", " ".join(text.split()))[:CELL_CHARACTERS]
