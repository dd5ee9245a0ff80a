"""Calls for which no kernel was verified, for `package_models.py`: the reference must answer them.

Each takes the inputs of a problem at its small size, on the device, and changes one thing.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import torch

Inputs = list[Any]


def longer(inputs: Inputs) -> Inputs:
    """One more in the leading dimension of all that have the first one's."""
    many = len(inputs[0])
    return [torch.cat([each, each[:1]]) if len(each) == many else each for each in inputs]


def shorter(inputs: Inputs) -> Inputs:
    """One less in the dimension before the last."""
    return [each[..., :-1, :].contiguous() for each in inputs]


def strided(inputs: Inputs) -> Inputs:
    """The same numbers in every second place of twice the memory."""
    return [torch.stack([each, each], dim=-1)[..., 0] for each in inputs]


def shifted(inputs: Inputs) -> Inputs:
    """The same numbers one element further in memory."""
    return [torch.cat([each.new_zeros(1), each.flatten()])[1:].view(each.shape) for each in inputs]


def channels_last(inputs: Inputs) -> Inputs:
    return [each.contiguous(memory_format=torch.channels_last) for each in inputs]


def with_gradient(inputs: Inputs) -> Inputs:
    return [each.requires_grad_() for each in inputs]


def to(target: torch.dtype | str) -> Callable[[Inputs], Inputs]:
    return lambda inputs: [each.to(target) for each in inputs]


def unchanged(inputs: Inputs) -> Inputs:
    return inputs


@dataclass(frozen=True, slots=True)
class Call:
    """One call, and words of the reason that the package must give on a GPU."""

    problem: str
    what: str
    change: Callable[[Inputs], Inputs]
    reason: str = "shapes, strides or types"
    init: Callable[[list[Any]], list[Any]] = list
    beside: bool = False
    """On a stream of its own, if there are any."""


CALLS: Final = (
    Call("level1/09_softmax", "one row more", longer),
    Call("level2/06_causal_attention", "one position less", shorter),
    Call("level2/10_rotary_embedding", "float64", to(torch.float64)),
    Call("level1/20_max_pool2d", "channels last", channels_last),
    Call("level1/16_cumulative_sum", "every second place", strided),
    Call("level2/08_residual_rms_norm", "one row more", longer),
    Call("norms/group_norm_silu", "on the CPU", to("cpu"), "not all on one"),
    Call("attention/sliding_window_grouped", "one sequence more", longer),
    Call("vision/depthwise_layer_norm", "one image more", longer),
    Call("level1/12_column_sum", "float16", to(torch.float16)),
    Call("level2/07_swiglu_mlp", "wider", unchanged, "constructor", lambda init: [init[0], init[1] + 8]),
    Call("level1/21_avg_pool2d", "gradient wanted", with_gradient, "gradients"),
    Call("level1/15_argmax", "one element further in memory", shifted, "aligned"),
    Call("norms/query_key_norm_rotary", "one token more", longer),
    Call("level1/13_row_mean", "on a stream of its own", unchanged, "stream", beside=True),
)


def answer(call: Call, made: type[Any], reference: ModuleType, device: str) -> dict[str, Any]:
    """Make a call of a package's model and of its reference, of equal weights; say what came of it."""
    vars(reference).update(reference.SHAPES["small"])
    init = call.init(reference.get_init_inputs())
    torch.manual_seed(2)
    inputs = call.change([each.to(device) for each in reference.get_inputs()])
    place = inputs[0].device
    model, plain = made(*init).to(place), reference.Model(*init).to(place)
    plain.load_state_dict(model.state_dict())
    outputs = [_called(each, copy.deepcopy(inputs), call, device) for each in (plain, model)]
    try:
        torch.testing.assert_close(outputs[1], outputs[0], equal_nan=True)
        trouble = ""
    except AssertionError as error:
        trouble = f"another answer: {str(error)[:200]}"
    (answered,) = model.calls
    expected = "reference: " + (call.reason if device == "cuda" else "")
    if not answered.startswith("reference: ") or (device == "cuda" and call.reason not in answered):
        trouble = trouble or f"answered by the {answered}, not by the {expected}"
    same = all(torch.equal(*pair) for pair in zip(*outputs, strict=True))
    return {
        "problem": call.problem,
        "call": call.what,
        "answered": answered,
        "bitwise": same,
        "trouble": trouble,
    }


def _called(model: Any, inputs: Inputs, call: Call, device: str) -> list[torch.Tensor]:
    wants_gradient = any(each.requires_grad for each in inputs)
    aside: AbstractContextManager[Any] = contextlib.nullcontext()
    if call.beside and device == "cuda":
        torch.cuda.synchronize()
        aside = torch.cuda.stream(torch.cuda.Stream())
    with torch.set_grad_enabled(wants_gradient), aside:
        out = model(*inputs)
        found = list(out) if isinstance(out, tuple) else [out]
        if wants_gradient:
            found[0].square().sum().backward()
            found += [each.grad for each in inputs]
    if device == "cuda":
        torch.cuda.synchronize()
    return [each.detach() for each in found]
