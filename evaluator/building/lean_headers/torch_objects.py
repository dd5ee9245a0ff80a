"""Copies the declarations of torch's Python objects that the helper needs out of torch's own headers.

The headers themselves include pybind11 and autograd: ten seconds of parsing for one structure and three
functions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_VARIABLE: Final = "torch/csrc/autograd/python_variable.h"
_EXCEPTIONS: Final = "torch/csrc/Exceptions.h"
_PREAMBLE: Final = "#include <c10/util/MaybeOwned.h>\n#include <torch/csrc/Export.h>\n"
_WANTED: Final = (
    (_VARIABLE, re.compile(r"^struct THPVariable \{.*?^\};", re.MULTILINE | re.DOTALL)),
    (_VARIABLE, re.compile(r"^[A-Z_ ]*extern PyObject\* ?THPVariableClass;", re.MULTILINE)),
    (
        _VARIABLE,
        re.compile(r"^[A-Z_ ]*PyObject\* THPVariable_Wrap\((?:const )?at::TensorBase&? \w+\);", re.MULTILINE),
    ),
)
_TRANSLATION: Final = re.compile(r"^[A-Z_ ]*void translate_exception_to_python\([^;]*\);", re.MULTILINE)


def restate(include: Path) -> str:
    """C++ text that declares them; includes torch's headers where the declarations are not found."""
    whole = f"#include <{_EXCEPTIONS}>\n#include <{_VARIABLE}>\n"
    try:
        texts = {name: (include / name).read_text() for name in (_VARIABLE, _EXCEPTIONS)}
    except OSError:
        return whole
    found = [pattern.search(texts[name]) for name, pattern in _WANTED]
    translation = _TRANSLATION.search(texts[_EXCEPTIONS])
    parts = [match.group() for match in found if match]
    if translation is None or len(parts) < len(_WANTED):
        return whole
    return "\n".join([_PREAMBLE, *parts, "namespace torch {", translation.group(), "}", ""])
