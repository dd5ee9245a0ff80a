"""A recorded conversation, judged for real: repaired twice, made faster, rolled back, then out of budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from agent.workspace import Workspace

Command = Callable[..., Result]

MODULE = '''import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
constexpr int64_t TILE = 16;
at::Tensor twice(at::Tensor x) {
    at::Tensor y = at::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    const int64_t count = BOUND;
    for (int64_t again = 0; again < REPEATS; again++)
        for (int64_t i = 0; i < count; i++) {
            volatile float seen = from[i];
            to[i] = seen * 2 + 1;
        }
    return y;
}
"""
built = load_inline("twice", cpp_sources=source, functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.twice(x)
'''
WHOLE, TILED = "x.numel()", "x.numel() / TILE * TILE"


def turn(bound: str = WHOLE, repeats: int = 1, typo: str = "") -> str:
    """A reply with one version of the module."""
    code = (
        MODULE.replace("BOUND", bound)
        .replace("REPEATS", str(repeats))
        .replace("return y;", f"return y{typo};")
    )
    return f"```python\n{code}```\n"


@pytest.mark.slow
def test_a_conversation_is_repaired_made_faster_rolled_back_and_bounded(
    kernelwright: Command, tmp_path: Path, quick: tuple[str, ...]
) -> None:
    turns = [
        turn(typo="es"),
        turn(TILED),
        turn(repeats=500),
        turn(),
        turn(TILED, repeats=2),
        turn(),
        turn(repeats=3),
    ]
    for number, text in enumerate(turns):
        (tmp_path / "replies" / "twice" / "cpp" / f"{number:02}.md").write_text(text)
    arguments = [item for item in quick if item != "--no-time"]
    result = kernelwright(
        "run", *arguments, "--turns", "7", "--max-attempts", "6", "--baselines", "eager", "--quiet"
    )
    assert result.exit_code == 0, result.output
    assert "budget of 6 attempts reached" in result.stdout, result.output
    archive = Workspace(tmp_path).archive()
    found = sorted(archive.attempts(), key=lambda attempt: attempt.key.turn)
    assert [attempt.status for attempt in found] == [
        "COMPILE_ERROR",
        "WRONG_VALUES",
        "PASSED",
        "PASSED",
        "WRONG_VALUES",
        "PASSED",
    ]
    assert found[3].speedup is not None and found[2].speedup is not None
    asked = [archive.messages(attempt.completion) for attempt in found]
    assert "yes" in asked[1][-1].content and "does not compile" in asked[1][-1].content
    assert "Only some elements are wrong: check edges" in asked[2][-1].content
    assert "Your module is right, and runs at" in asked[3][-1].content
    # What made it worse is not shown; the last question goes on from the best, and says what was tried.
    assert [message.role for message in asked[5]] == [message.role for message in asked[4]]
    assert asked[5][:-1] == asked[4][:-1]
    assert "was given up for this one: it ended as WRONG_VALUES" in asked[5][-1].content
    assert found[5].evaluation is not None and found[5].evaluation.reused_from == found[3].id
    assert len(list(Workspace(tmp_path).kernels())) == 2
