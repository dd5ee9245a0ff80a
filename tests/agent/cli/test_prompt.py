"""`kernelwright prompt` prints what would be sent, letters that cannot be seen written out."""

from __future__ import annotations

import json
from pathlib import Path

from kernelwright.evaluator import visible
from tests.agent.cli.conftest import PROBLEM, Command


def test_what_is_printed_is_what_is_sent(kernelwright: Command, tmp_path: Path) -> None:
    tabs = PROBLEM.replace("return x * 2 + 1", "return x * 2 + 1  #\tone\tmore \x1b[31m")
    (tmp_path / "twice.py").write_text(tabs)
    arguments = ("prompt", str(tmp_path / "twice.py"), "-b", "cpp", "--backward", "--cache", str(tmp_path))
    text = kernelwright(*arguments, "--target", "h200")
    assert text.exit_code == 0, text.output
    assert "--target h200 is a GPU; prompts for cpp speak of a CPU" in text.stderr
    messages = json.loads(kernelwright(*arguments, "--json").stdout)["messages"]
    sent = "".join(f"=== {one['role']}\n{one['content']}\n" for one in messages)
    assert "#\tone\tmore \x1b[31m" in sent and text.stdout == visible(sent)
    assert "gradient" in text.stdout
