"""The replay server in the foreground."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from tests.agent.cli.conftest import Command


def test_recordings_are_served_until_interrupted(tmp_path: Path) -> None:
    turn = tmp_path / "relu" / "cpp" / "00.md"
    turn.parent.mkdir(parents=True)
    turn.write_text("the reply")
    server = subprocess.Popen(
        [sys.executable, "-m", "kernelwright.agent.cli", "replay", "--folder", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    try:
        assert server.stdout is not None
        lines = [server.stdout.readline(), server.stdout.readline()]
        found = re.search(r"OPENAI_BASE_URL=(\S+).*model: (\S+)", lines[1])
        assert found, lines
        body = {"model": found[2], "messages": [{"role": "user", "content": "backend: cpp, problem: relu"}]}
        request = Request(
            f"{found[1]}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=30) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"] == "the reply"
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
    finally:
        server.kill()
        server.communicate()
    assert server.returncode == 130
    assert "Traceback" not in errors


def test_a_missing_folder_is_named(kernelwright: Command) -> None:
    result = kernelwright("replay", "--folder", "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
