"""`kernelwright import`: what it takes in, what it leaves out, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.cli.conftest import Command

CODE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def chat(**fields: object) -> str:
    choice = {"message": {"content": f"```python\n{CODE}```\n"}, "finish_reason": "stop"}
    return json.dumps({"model": "m", "choices": [choice], **fields})


def test_what_gives_no_reply_is_said_and_left_out(kernelwright: Command, tmp_path: Path) -> None:
    lines = [chat(problem="level1/09_softmax"), *["{torn"] * 7]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    result = kernelwright("import", "replies.jsonl", "--backend", "cpp", "--json")
    (row,) = json.loads(result.stdout)
    assert (result.exit_code, row["problem"], row["matched_by"]) == (0, "level1/09_softmax", "name")
    assert "left out: replies.jsonl:2 is not JSON" in result.stderr
    assert "2 more; 7 in all" in result.stderr


@pytest.mark.parametrize(("name", "text"), [("x.jsonl", ""), ("x.jsonl", '{"torn'), ("x.json", "[]")])
def test_a_file_without_a_reply_is_refused(
    kernelwright: Command, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    result = kernelwright("import", name)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "internal" not in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_doubt_is_kept_where_one_problem_takes_everything(kernelwright: Command, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(f"# Problem: 6_Matmul\n# Model: \x1b[31mred\n\n```python\n{CODE}```\n")
    result = kernelwright(
        "import", "x.txt", "--problem", "level1/09_softmax", "--backend", "cpp", "--backward"
    )
    assert "level1/09_softmax (as asked; the file says 6_Matmul)" in " ".join(result.stdout.split())
    assert "\x1b" not in result.stdout
