"""Repeats: the same work under other names, in another layout, or with a line more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.agent.datasets.policy import NEAR_SHARE
from kernelwright.agent.datasets.select.near_duplicates import Repeats, sketch

CUDA = '''import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <cuda_runtime.h>
// {comment}
__global__ void {kernel}(const float* {first}, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ out[i] = {operation}({first}[i]) * {factor}f; }}
}}
torch::Tensor forward(torch::Tensor {first}) {{
    auto out = torch::empty_like({first});
    int n = {first}.numel();
    {kernel}<<<(n + 255) / 256, 256>>>({first}.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}}
"""
module = load_inline("{kernel}", cpp_sources="torch::Tensor forward(torch::Tensor {first});",
                     cuda_sources=source, functions=["forward"])


class ModelNew(torch.nn.Module):
    def forward(self, {first}):
        return module.forward({first})
'''


def cuda(**changes: str) -> str:
    fields = {"comment": "fast", "kernel": "scale", "first": "x", "operation": "tanhf", "factor": "2.0"}
    return CUDA.format(**{**fields, **changes})


def test_comments_layout_and_names_do_not_tell_sources_apart() -> None:
    one = sketch(cuda())
    assert one.exact == sketch(cuda(comment="something else // entirely")).exact
    assert one.exact == sketch(cuda(first="input")).exact
    assert one.exact == sketch(cuda().replace("    ", "        ")).exact


@pytest.mark.parametrize("change", [{"operation": "expf"}, {"factor": "3.0"}])
def test_what_is_computed_tells_sources_apart(change: dict[str, str]) -> None:
    one, other = sketch(cuda()), sketch(cuda(**change))
    assert one.exact != other.exact
    repeats = Repeats(None)
    assert repeats.add(one) and repeats.add(other) and not repeats.add(one)


def test_a_long_source_with_a_line_more_is_nearly_the_same() -> None:
    lines = [f"    y{number} = torch.op{number}(x, {number})" for number in range(80)]
    one = "\n".join(["def forward(self, x):", *lines])
    other = "\n".join(["def forward(self, x):", *lines[:40], "    z = torch.more(x)", *lines[40:]])
    repeats = Repeats()
    assert sketch(one).share(sketch(other)) > NEAR_SHARE
    assert repeats.add(sketch(one)) and not repeats.add(sketch(other))
    assert repeats.add(sketch(one.replace("torch.op", "torch.other")))


def test_a_quick_look_never_overlooks_a_near_repeat() -> None:
    lines = [f"    y{number} = torch.op{number}(x, {number})" for number in range(60)]
    for kept in range(30, 61):
        for total in (30, 60):
            one, other = sketch("\n".join(lines[:kept])), sketch("\n".join(lines[:total]))
            for least in (0.5, NEAR_SHARE):
                assert one.is_near(other, least) is (one.share(other) >= least)


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=200))
def test_any_text_has_a_sketch_and_repeats_itself(text: str) -> None:
    repeats = Repeats()
    assert repeats.add(sketch(text))
    assert not repeats.add(sketch(text))
    assert sketch(text).share(sketch(text)) == 1.0
