"""Whether a wrong answer of a lean library may be the lean headers' fault: what of ours it calls."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from kernelwright.evaluator.analysis.elf_symbols import defined_functions

_OURS: Final = re.compile(
    r"_ZNK?12kernelwright(?P<owner>6Tensor|7Library|6detail)?(?P<size>\d{1,3})(?P<rest>[A-Za-z_]\w*)"
)
"""A function of the lean headers' namespace or of a class in it, by the Itanium C++ ABI."""
_OPERATORS: Final = Path(__file__).with_name("operators.txt")
_WRITTEN_BY_HAND: Final = frozenset({"from_blob", "index", "index_put", "item"})
_HARMLESS: Final = frozenset(
    (
        "detach", "empty", "empty_like", "empty_strided", "new_empty", "numel", "size", "zero", "zeros",
        "zeros_like",
    )
)  # fmt: skip
"""What nearly every library has, says how a tensor lies or makes one, and is proved by the self-test."""


def may_answer_wrongly(library: Path) -> bool:
    """Whether something in a lean library stands in for a computation of torch's; true if nobody can tell.

    The helper is linked in, and a symbol table names what was left of it once the linker had swept.
    """
    functions = defined_functions(library)
    return functions is None or any(_computes(name) for name in functions)


def _computes(symbol: str) -> bool:
    found = _OURS.match(symbol)
    if found is None:
        return False
    size = int(found["size"])
    name, after = found["rest"][:size], found["rest"][size:]
    # What follows a name tells a function from a class or namespace that holds one.
    if not after.startswith("E"):
        return False
    match found["owner"]:
        case "6detail":
            return name == "tensor_of"
        case "7Library":
            return True
    return name.rstrip("_") in _computing()


@cache
def _computing() -> frozenset[str]:
    return (frozenset(_OPERATORS.read_text().split()) | _WRITTEN_BY_HAND) - _HARMLESS
