"""Saved kernels were sanitized where the tools exist; a kernel that reads out of bounds is not saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import Sanitize
from tests.agent.cli.conftest import Command, Quick

MODULE = '''import torch
from torch.utils.cpp_extension import load_inline

built = load_inline("twice", cpp_sources=r"""
#include <torch/extension.h>
at::Tensor twice(at::Tensor x) {
    at::Tensor y = at::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    volatile float last = from[x.numel() - 1 + EXTRA];
    (void)last;
    for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i] * 2 + 1;
    return y;
}
""".replace("EXTRA", "{extra}"), functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.twice(x.contiguous())
'''


@pytest.mark.parametrize(
    ("extra", "status"),
    [("1", "MEMORY_ERROR"), pytest.param("0", "PASSED", marks=pytest.mark.slow)],
)
def test_a_run_keeps_only_what_the_sanitizers_let_through(
    kernelwright: Command, tmp_path: Path, quick: Quick, shared_cache: Path, extra: str, status: str
) -> None:
    reply = tmp_path / "replies" / "twice" / "cpp" / "00.md"
    reply.write_text(f"```python\n{MODULE.replace('{extra}', extra)}```\n")
    arguments = (*quick, "--cache", str(shared_cache), "--turns", "1", "--no-plain-build", "--quiet")
    result = kernelwright("run", *arguments)
    archive = Workspace(tmp_path).archive()
    (attempt,) = archive.attempts()
    evaluation = archive.evaluation(attempt)
    assert evaluation is not None
    assert evaluation.config.sanitize is Sanitize.ON
    kept = list(Workspace(tmp_path).kernels())
    sanitization = evaluation.sanitization  # none where the pages around the inputs showed the error before
    if sanitization is not None and not sanitization.ran:
        assert sanitization.reason
        pytest.skip(f"no sanitizer here: {sanitization.reason}")
    assert attempt.status == status
    assert (result.exit_code, len(kept)) == ((0, 1) if status == "PASSED" else (1, 0))
