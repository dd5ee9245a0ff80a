"""Nested Python values as a JSON tree plus a list of tensors, to cross a process border."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

# Any: a tree is JSON, and the values it stands for are whatever a problem's author wrote.
Tree = dict[str, Any]

_SCALARS = (bool, int, str, type(None))


class UnsupportedValue(TypeError):
    """A value that cannot cross: not a tensor, number, string, dtype, device or container of those.

    Of containers there are lists, tuples, dictionaries, and dataclasses and namespaces, which cross as plain
    namespaces of their fields and properties.
    """


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def dtype_from(name: str) -> torch.dtype:
    """The dtype of that name; raises ValueError where there is none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"no dtype called {name!r}")
    return dtype


def flatten(value: Any, *, numbers_as_tensors: bool = False) -> tuple[Tree, list[torch.Tensor]]:
    """Split a value into its structure and its tensors, in order.

    With `numbers_as_tensors`, ints, floats and bools become 0-dim float64 tensors, to be compared alike.

    Raises:
        UnsupportedValue: something inside cannot cross a process border.
    """
    leaves: list[torch.Tensor] = []
    return _flatten(value, leaves, numbers_as_tensors), leaves


def _flatten(value: Any, leaves: list[torch.Tensor], numbers: bool) -> Tree:
    value = _plain(value)
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return {"k": "tensor", "i": len(leaves) - 1}
    if numbers and isinstance(value, (bool, int, float)):
        leaves.append(torch.tensor(float(value), dtype=torch.float64))
        return {"k": "tensor", "i": len(leaves) - 1}
    if isinstance(value, _SCALARS):
        return {"k": "value", "v": value}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"k": kind, "v": [_flatten(item, leaves, numbers) for item in value]}
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        # Outputs are compared by key, whatever order a dictionary was filled in; inputs keep theirs.
        kind, items = "dict", value.items()
        items = sorted(items, key=lambda item: str(item[0])) if numbers else items
    elif is_namespace(value):
        # A property of what is returned says nothing that its fields do not.
        kind, items = "namespace", sorted(read_fields(value, properties=not numbers).items())
    else:
        return _atom(value)
    return {"k": kind, "v": [[_atom(_plain(key)), _flatten(item, leaves, numbers)] for key, item in items]}


def is_namespace(value: Any) -> bool:
    """True for values that cross as namespaces."""
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_record or isinstance(value, SimpleNamespace)


def read_fields(value: Any, *, properties: bool) -> dict[str, Any]:
    """Fields, and properties if wanted, of a dataclass or a namespace."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(vars(value))
    kinds = type(value).__mro__ if properties else ()
    names += [name for kind in kinds for name, held in vars(kind).items() if isinstance(held, property)]
    return {name: getattr(value, name) for name in names}


def _plain(value: Any) -> Any:
    """A scalar of numpy as Python's own; numpy itself need not be installed."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def _atom(value: Any) -> Tree:
    match value:
        case None | bool() | int() | str():
            return {"k": "value", "v": value}
        case float():
            return {"k": "float", "v": value.hex()}
        case complex():
            return {"k": "complex", "v": [value.real.hex(), value.imag.hex()]}
        case torch.dtype():
            return {"k": "dtype", "v": dtype_name(value)}
        case torch.device():
            return {"k": "device", "v": str(value)}
        case slice():
            return {"k": "slice", "v": [value.start, value.stop, value.step]}
        case _:
            raise UnsupportedValue(
                f"a value of type {type(value).__qualname__} cannot be handed over; numbers, strings, "
                "tensors and dtypes can, in lists, tuples, dictionaries and dataclasses"
            )


def unflatten(tree: Tree, leaf: Callable[[int], Any]) -> Any:
    """Rebuild a value; `leaf(i)` gives its i-th tensor. Raises ValueError where the tree is malformed."""
    kind, content = tree.get("k"), tree.get("v")
    match kind:
        case "tensor":
            return leaf(int(tree["i"]))
        case "list" if isinstance(content, list):
            return [unflatten(item, leaf) for item in content]
        case "tuple" if isinstance(content, list):
            return tuple(unflatten(item, leaf) for item in content)
        case "dict" if isinstance(content, list):
            return {unflatten(key, leaf): unflatten(item, leaf) for key, item in content}
        case "namespace" if isinstance(content, list):
            return SimpleNamespace(**{str(key["v"]): unflatten(item, leaf) for key, item in content})
        case _:
            return _unflatten_atom(kind, content)


def _unflatten_atom(kind: Any, content: Any) -> Any:
    match kind:
        case "value":
            return content
        case "float":
            return float.fromhex(str(content))
        case "complex" if isinstance(content, list):
            return complex(float.fromhex(content[0]), float.fromhex(content[1]))
        case "dtype":
            return dtype_from(str(content))
        case "device":
            return torch.device(str(content))
        case "slice" if isinstance(content, list):
            return slice(*content)
        case _:
            raise ValueError(f"malformed tree node of kind {kind!r}")


def same_structure(left: Tree, right: Tree) -> bool:
    """Compare how two outputs nest; lists and tuples are one (C++ bindings return lists)."""
    kinds = {"list": "sequence", "tuple": "sequence"}
    if kinds.get(left["k"], left["k"]) != kinds.get(right["k"], right["k"]):
        return False
    match left["k"]:
        case "tensor":
            return True
        case "list" | "tuple":
            ours, theirs = ({str(at): item for at, item in enumerate(tree["v"])} for tree in (left, right))
        case "dict" | "namespace":
            ours, theirs = ({str(key): item for key, item in tree["v"]} for tree in (left, right))
        case _:
            return bool(left == right)
    return ours.keys() == theirs.keys() and all(same_structure(ours[key], theirs[key]) for key in ours)


def leaf_paths(tree: Tree, prefix: str = "") -> list[str]:
    """The path to each tensor, such as `[0]["logits"]`, in leaf order."""
    match tree["k"]:
        case "tensor":
            return [prefix]
        case "list" | "tuple":
            parts = list(enumerate(tree["v"]))
        case "dict" | "namespace":
            parts = [(key.get("v"), item) for key, item in tree["v"]]
        case _:
            return []
    return [path for name, item in parts for path in leaf_paths(item, f"{prefix}[{name!r}]")]
