"""A problem: a KernelBench-format file, read as text and checked without running it.

The file defines `Model`, `get_inputs()` and, if the model takes arguments, `get_init_inputs()`. An optional
`SHAPES` dictionary, `{"small": {"M": 64}}`, names overrides of module constants. Only the referee runs it.

`forward` may change its arguments and buffers, such as an optimizer's moments, a cache or running statistics,
and then need not return anything: what it changes is found by calling it, and is part of the answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter

from kernelwright.evaluator.schema.errors import ConfigError, ProblemError
from kernelwright.evaluator.schema.policy import MAX_PROBLEM_BYTES
from kernelwright.evaluator.schema.python_syntax import parse_python
from kernelwright.evaluator.schema.record import Record, sha256_text

_DEFINES_MODEL = re.compile(r"^class Model\b", re.MULTILINE)
"""A candidate beside a problem defines `ModelNew`."""
_LIBRARY = "reference_problems"
"""A folder of this name holds families of problems, one folder each."""


class Problem(Record):
    """One task: the reference's source and its shape variants."""

    id: str
    """Folder and file stem, such as `level1/01_square_matmul`; unique within a run."""
    source: str
    shapes: dict[str, dict[str, JsonValue]] = {}
    """Named overrides of module constants, from the file's `SHAPES`."""

    @cached_property
    def sha(self) -> str:
        return sha256_text(self.source)

    def overrides(self, shapes: str | None) -> dict[str, JsonValue]:
        """Constants to set for a shape name, none for None; raises ConfigError for an unknown name."""
        if shapes is None:
            return {}
        if shapes not in self.shapes:
            known = ", ".join(self.shapes) or "none"
            raise ConfigError(f"problem {self.id} has no shapes named {shapes!r}; known: {known}")
        return self.shapes[shapes]


def read_problem(path: Path) -> Problem:
    """Read and check one file; raises ProblemError where it is unreadable, and as `problem_from_source`."""
    try:
        if path.stat().st_size > MAX_PROBLEM_BYTES:
            raise ProblemError(f"{path}: larger than {MAX_PROBLEM_BYTES} bytes; not a problem file")
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"cannot read problem {path}: {error}") from error
    return problem_from_source(source, _id(path.resolve()))


def _id(path: Path) -> str:
    """Return the stem, with its folder if that is a level or a family of a library."""
    folder, library = path.parent.name, path.parent.parent.name
    return f"{folder}/{path.stem}" if folder.startswith("level") or library == _LIBRARY else path.stem


def problem_from_source(source: str, problem_id: str) -> Problem:
    """Check a problem's text; raises ProblemError where it is no Python, or lacks the contract's names."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"problem {problem_id} is not valid Python: {error}") from error
    names = _top_level_names(tree)
    missing = [name for name in ("Model", "get_inputs") if name not in names]
    if missing:
        raise ProblemError(
            f"problem {problem_id} does not define {' and '.join(missing)}; "
            "a KernelBench problem defines Model, get_inputs and get_init_inputs"
        )
    shapes = _literal_shapes(tree, problem_id)
    unknown = sorted({key for override in shapes.values() for key in override} - names)
    if unknown:
        raise ProblemError(f"problem {problem_id}: SHAPES overrides unknown constants: {', '.join(unknown)}")
    return Problem(id=problem_id, source=source, shapes=shapes)


def find_problems(paths: Iterable[Path]) -> list[Path]:
    """Problem files that files and folders name, sorted; raises ProblemError for a path that names none."""
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            files = sorted(
                file
                for file in path.rglob("*.py")
                if not file.name.startswith(("_", "."))
                and file.is_file()
                and _DEFINES_MODEL.search(file.read_text("utf-8", "replace"))
            )
            if not files:
                raise ProblemError(f"no problem files (`class Model`) under {path}")
            found += files
        else:
            raise ProblemError(f"no such problem file or folder: {path}")
    return list(dict.fromkeys(found))


def _top_level_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                if node in tree.body:
                    names.add(node.name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
    return names


_SHAPES: Final = TypeAdapter(dict[str, dict[str, JsonValue]])


def _literal_shapes(tree: ast.Module, problem_id: str) -> dict[str, dict[str, JsonValue]]:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not (isinstance(target, ast.Name) and target.id == "SHAPES"):
            continue
        value = getattr(node, "value", None)
        try:
            return _SHAPES.validate_python(ast.literal_eval(value) if isinstance(value, ast.expr) else None)
        except (ValueError, TypeError, RecursionError, MemoryError):  # TypeError: a list as a key
            raise ProblemError(
                f"problem {problem_id}: SHAPES must be a literal dictionary of names to "
                "dictionaries of module constants"
            ) from None
    return {}
