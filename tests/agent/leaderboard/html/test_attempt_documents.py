"""A candidate's printed text never holds up a page."""

from __future__ import annotations

import subprocess
import sys


def test_printed_numbers_are_read_in_linear_time() -> None:
    code = (
        "from kernelwright.agent.leaderboard.html.attempt_documents import _NUMBERS\n"
        "assert _NUMBERS.search('[ ' + '-1, ' * 20000 + 'x') is None\n"
        "assert _NUMBERS.search('[ -1,  2e-3 ]')[1] == '-1,  2e-3'\n"
    )
    # In a process of its own, because a backtracking search cannot be interrupted.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
