"""Reads declarations out of the installed torch's headers and restates them.

Writes declarations of ATen's operators for the lean headers, and definitions for the helper that is compiled
once against the full headers. The lean headers so have exactly this torch version's overloads and defaults,
for the names listed in `operators.txt`. Of torch's Python objects it copies what the helper needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PLAIN: Final = (
    "Tensor", "IntArrayRef", "OptionalIntArrayRef", "Scalar", "ScalarType", "TensorOptions", "MemoryFormat",
    "TensorList", "Device", "Layout", "int64_t", "bool", "double", "std::string_view", "ArrayRef<double>",
)  # fmt: skip
_PARAMETERS: Final = frozenset(
    (
        *_PLAIN,
        *(f"std::optional<{name}>" for name in _PLAIN),
        *(f"const {name}&" for name in ("Tensor", "Scalar", "TensorList")),
        *(f"const std::optional<{name}>&" for name in ("Tensor", "Scalar")),
        "Tensor&",
    )
)
_RESULTS: Final = frozenset(
    ("Tensor", "Tensor&", "std::vector<Tensor>", "Scalar", "bool", "int64_t", "double", "void")
)
_HANDWRITTEN: Final = re.compile(
    r"contiguous|data|dim|index|index_put_|is_complex|is_floating_point|item|numel|print|requires_grad_?"
    r"|set_requires_grad|sizes?|stride"
)
"""Methods `tensor.h` writes itself."""
_FUNCTION: Final = re.compile(r"^inline ([^\n{}]+?) (\w+)\(([^\n]*)\) \{$", re.MULTILINE)
_VARIABLE: Final = "torch/csrc/autograd/python_variable.h"
_EXCEPTIONS: Final = "torch/csrc/Exceptions.h"
_PYTHON_OBJECTS: Final = (
    (_VARIABLE, r"^struct THPVariable \{(?s:.*?)^\};"),
    (_VARIABLE, r"^[A-Z_ ]*extern PyObject\* ?THPVariableClass;"),
    (_VARIABLE, r"^[A-Z_ ]*PyObject\* THPVariable_Wrap\((?:const )?at::TensorBase&? \w+\);"),
    (_EXCEPTIONS, r"^[A-Z_ ]*void translate_exception_to_python\([^;]*\);"),
)
_METHOD: Final = re.compile(r"^  ([\w:<>,& ]+?) (\w+)\(([^\n]*)\) const;$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operator, spelled as in the lean headers."""

    type: str
    name: str
    default: str


@dataclass(frozen=True, slots=True)
class Operator:
    result: str
    name: str
    parameters: tuple[Parameter, ...]

    def declaration(self, *, method: bool) -> str:
        """The declaration with defaults, for the lean headers."""
        listed = ", ".join(
            f"{part.type} {part.name}{f' = {part.default}' if part.default else ''}"
            for part in self.parameters
        )
        return f"{self.result} {self.name}({listed}){' const' if method else ''};"

    def definition(self, *, method: bool) -> str:
        """The definition, for the helper: converts arguments to torch's types and the result back."""
        listed = ", ".join(f"{part.type} {part.name}" for part in self.parameters)
        handed = ", ".join(f"real({part.name})" for part in self.parameters)
        head = (
            f"{self.result} {'Tensor::' if method else ''}{self.name}({listed}){' const' if method else ''}"
        )
        call = f"{'real(*this).' if method else '::at::'}{self.name}({handed})"
        options = next((part.name for part in self.parameters if part.type == "TensorOptions"), None)
        if self.result == "Tensor&":
            target = "const_cast<Tensor&>(*this)" if method else self.parameters[0].name
            return f"{head} {{ {call}; return {target}; }}"
        if self.result == "void":
            return f"{head} {{ {call}; }}"
        if options and self.result == "Tensor" and not method:
            return f"{head} {{ return finish({call}, {options}); }}"
        return f"{head} {{ return lean({call}); }}"


def read_functions(include: Path, names: Iterable[str]) -> list[Operator]:
    """Free functions of the named operators, `_out` variants included."""
    found: dict[str, Operator] = {}
    for name in names:
        header = include / "ATen" / "ops" / f"{name}.h"
        if header.exists():
            text = re.sub(r"namespace symint \{.*?\n\}\n", "", header.read_text(), flags=re.DOTALL)
            for operator in _read(_FUNCTION, text):
                found.setdefault(operator.declaration(method=False), operator)
    return [operator for operator in found.values() if not _is_flattened(operator)]


def read_methods(include: Path, names: Iterable[str]) -> list[Operator]:
    """Tensor methods of the named operators and their in-place variants."""
    wanted = {variant for name in names for variant in (name, f"{name}_")}
    body = (include / "ATen" / "core" / "TensorBody.h").read_text()
    declared = (operator for operator in _read(_METHOD, body) if operator.name in wanted)
    return [
        operator
        for operator in declared
        if not _is_flattened(operator) and not _HANDWRITTEN.fullmatch(operator.name)
    ]


def python_objects(include: Path) -> str:
    """C++ text that declares torch's Python objects; includes torch's headers where it finds no declarations.

    The headers include pybind11 and autograd: ten seconds of parsing for one structure and three functions.
    """
    try:
        texts = {name: (include / name).read_text() for name in (_VARIABLE, _EXCEPTIONS)}
    except OSError:
        texts = {}
    found = [re.search(words, texts.get(name, ""), re.MULTILINE) for name, words in _PYTHON_OBJECTS]
    if not all(found):
        return f"#include <{_EXCEPTIONS}>\n#include <{_VARIABLE}>\n"
    *parts, translation = (match.group() for match in found if match)
    preamble = "#include <c10/util/MaybeOwned.h>\n#include <torch/csrc/Export.h>\n"
    return "\n".join([preamble, *parts, "namespace torch {", translation, "}", ""])


def _is_flattened(operator: Operator) -> bool:
    """True for the overload that lists the parts of `TensorOptions` one by one."""
    return any(part.type == "std::optional<Layout>" for part in operator.parameters)


def _read(pattern: re.Pattern[str], text: str) -> Iterator[Operator]:
    for result, name, listed in pattern.findall(text):
        parameters = [_parameter(part) for part in _split(listed)]
        while parameters and parameters[-1].default and parameters[-1].type not in _PARAMETERS:
            if name.endswith("_out"):
                break
            parameters.pop()  # mostly an optional generator, which candidates leave at its default
        restated = _restate(result)
        known = restated in _RESULTS or re.fullmatch(r"std::tuple<Tensor(,Tensor)+>", restated)
        spoken = all(part.type in _PARAMETERS for part in parameters)
        if known and spoken and not name.endswith(("_symint", "_outf")):
            yield Operator(restated, name, tuple(parameters))


def _split(listed: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(listed):
        depth += (character in "<({") - (character in ">)}")
        if character == "," and depth == 0:
            yield listed[start:position]
            start = position + 1
    if listed[start:].strip():
        yield listed[start:]


def _parameter(text: str) -> Parameter:
    declared, _, default = text.strip().partition("=")
    kind, _, name = declared.strip().rpartition(" ")
    return Parameter(_restate(kind), name, _restate(default))


def _restate(text: str) -> str:
    text = text.strip().replace("::std::", "std::").replace("c10::string_view", "std::string_view")
    text = (
        re.sub(r"\b(?:at|c10)::", "", text)
        .replace("ITensorList ", "TensorList ")
        .replace("ITensorListRef", "TensorList")
    )
    return re.sub(r"\s*([&<>,])\s*", r"\1", text)
