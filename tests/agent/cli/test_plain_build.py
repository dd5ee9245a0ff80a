"""Saved kernels also build without lean headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command, Quick

MODULE = '''import torch
from torch.utils.cpp_extension import load_inline

built = load_inline("twice", cpp_sources=r"""
#include <torch/extension.h>
#if FUSSY && !__has_include(<kernelwright/tensor.h>)
#error only lean headers will do
#endif
at::Tensor twice(at::Tensor x) {
    at::Tensor y = at::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i] * 2 + 1;
    return y;
}
""", functions=["twice"], extra_cflags=["-DFUSSY={fussy}"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.twice(x.contiguous())
'''


@pytest.mark.slow
@pytest.mark.parametrize("fussy", [False, True])
def test_a_run_keeps_what_builds_with_torchs_own_headers(
    kernelwright: Command, tmp_path: Path, quick: Quick, shared_cache: Path, fussy: bool
) -> None:
    reply = tmp_path / "replies" / "twice" / "cpp" / "00.md"
    reply.write_text(f"```python\n{MODULE.replace('{fussy}', str(int(fussy)))}```\n")
    more = ("--turns", "1", "--sanitize", "off", "--cache", str(shared_cache))
    result = kernelwright("run", *quick, *more)
    assert result.exit_code == 0, result.output
    (attempt,) = Workspace(tmp_path).archive().attempts()
    assert attempt.passed
    kept = [kernel.record.builds_plainly for kernel in Workspace(tmp_path).kernels()]
    assert kept == ([] if fussy else [True])
    refused = "it does not build with torch's own headers: twice: main.cpp:"
    assert (refused in result.output) is ("only lean headers will do" in result.output) is fussy
