"""State that calls leave changed, copied into the referee's slots by the names it has in the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernelwright.evaluator.ipc.contestant_messages import Collected
from kernelwright.evaluator.ipc.model_state import named_state
from kernelwright.evaluator.ipc.policy import MAX_LINE


def collect_state(model: object, places: Mapping[str, torch.Tensor]) -> Collected:
    """Copy a model's buffers and parameters into their places; stop at the first that is not there."""
    held = named_state(model)
    for name, place in places.items():
        tensor = _named(held, name, place.shape)
        if tensor is None:
            return _complaint(f"has none of that name; it has {', '.join(held) or 'none at all'}", name)
        if tensor.shape != place.shape:
            shapes = f"{tuple(tensor.shape)} instead of {tuple(place.shape)}"
            return _complaint(f"has one of shape {shapes}", name)
        place.copy_(tensor)
    return Collected(kind="", complaint="")


def fitting_state(model: object, places: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The state's tensors, as bytes that will be found in their places; empty where one is missing."""
    if not places:
        return []
    held = named_state(model)
    found = [(_named(held, name, place.shape), place) for name, place in places.items()]
    return [tensor.to(place.dtype) for tensor, place in found if tensor is not None]


def _named(held: Mapping[str, torch.Tensor], name: str, shape: torch.Size) -> torch.Tensor | None:
    """The tensor of a name; else the only one of that shape whose name ends alike, in another submodule."""
    if name in held:
        return held[name]
    end = name.rpartition(".")[2]
    alike = [
        tensor for own, tensor in held.items() if own.rpartition(".")[2] == end and tensor.shape == shape
    ]
    return alike[0] if len(alike) == 1 else None


def _complaint(what: str, name: str) -> Collected:
    text = f"calls of the reference change its buffer {name}, which is compared; the module {what}"
    return Collected(kind="state", complaint=text[:MAX_LINE])
