"""Reads what settings models declare (types, docs, bounds, defaults) from their text, without importing them.

Importing the models takes 0.3 s, which `--help` does not have: `python -X importtime -c "import
kernelwright.agent.setup.run_settings"`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

PACKAGE: Final = Path(__file__).parents[3]

MODELS: Final = MappingProxyType(
    {
        "": ("agent/setup/run_settings.py", "RunSettings"),
        "options": ("agent/strategies/refine.py", "Refine"),
        "sampling": ("agent/records/messages.py", "Sampling"),
        "budget": ("agent/records/budgets.py", "Budget"),
        "evaluation": ("evaluator/schema/config.py", "EvaluationConfig"),
        "evaluation.limits": ("evaluator/schema/config.py", "Limits"),
        "service": ("agent/service/service_setup.py", "ServiceSettings"),
        "export": ("agent/datasets/export_settings.py", "DatasetSettings"),
        "export.filters": ("agent/datasets/export_settings.py", "Filters"),
    }
)
"""File and class that declare the settings below a path."""


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """One field of a settings model, as its source declares it."""

    help: str
    annotation: str
    default: str
    """As TOML writes it, or empty where there is none."""
    choices: tuple[str, ...]
    bounds: str

    @property
    def is_flag(self) -> bool:
        """True if the value is a boolean."""
        return self.annotation.startswith("bool")

    @property
    def is_list(self) -> bool:
        """True if the setting takes several values."""
        return self.annotation.startswith("tuple")

    @property
    def metavar(self) -> str:
        """The values it takes, for help."""
        if self.choices:
            return "|".join(self.choices)
        kind = self.annotation.partition(" ")[0]
        return {"int": "N", "float": "NUMBER", "Decimal": "NUMBER"}.get(kind, "TEXT") + self.bounds


def declared(path: str) -> DeclaredSetting:
    """Find the declaration of the setting at a path, such as `evaluation.math`."""
    model, _, name = path.rpartition(".")
    return _fields(*MODELS[model])[name]


@cache
def _fields(file: str, model: str) -> dict[str, DeclaredSetting]:
    tree = ast.parse((PACKAGE / file).read_text("utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    body = classes[model].body
    return {
        field.target.id: _setting(field, after, classes)
        for field, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _setting(
    field: ast.AnnAssign, after: ast.stmt | None, classes: dict[str, ast.ClassDef]
) -> DeclaredSetting:
    annotation, value = ast.unparse(field.annotation), field.value
    options: dict[str, ast.expr] = {}
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "Field":
        options = {word.arg: word.value for word in value.keywords if word.arg}
        value = options.get("default")
    return DeclaredSetting(
        help=_doc(after) or _doc(_class_of(annotation, classes)),
        annotation=annotation,
        default=_default(value),
        choices=_choices(field.annotation, classes),
        bounds=_bounds({name: ast.unparse(options[name]) for name in ("gt", "ge", "le") if name in options}),
    )


def _bounds(given: dict[str, str]) -> str:
    low, high = given.get("ge") or given.get("gt"), given.get("le")
    if high:
        return f" {low}..{high}"
    return f" >={low}" if low not in (None, "0") else ""


def _class_of(annotation: str, classes: dict[str, ast.ClassDef]) -> ast.stmt | None:
    found = classes.get(annotation.partition(" ")[0])
    return found.body[0] if found else None


def _doc(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return " ".join(str(node.value.value).split()) if is_text else ""  # type: ignore[union-attr]  # is_text


def _default(value: ast.expr | None) -> str:
    match value:
        case ast.Constant(value=None) | None:
            return ""
        case ast.Constant(value=one):
            return str(one).lower() if isinstance(one, bool) else str(one)
        case ast.Tuple(elts=elements):
            return ",".join(map(_default, elements))
        case ast.Attribute(attr=name):
            return name.lower()
        case _:
            return ""


def _choices(annotation: ast.expr, classes: dict[str, ast.ClassDef]) -> tuple[str, ...]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            return tuple(ast.literal_eval(node.slice)) if isinstance(node.slice, ast.Tuple) else ()
        if isinstance(node, ast.Name) and node.id in classes:
            members = (one.value for one in classes[node.id].body if isinstance(one, ast.Assign))
            return tuple(str(one.value) for one in members if isinstance(one, ast.Constant))
    return ()
