"""Variables that name a tool: gone from where a candidate looks for them."""

import os
import subprocess
import sys

PROGRAM = """
import os
from kernelwright.evaluator.contestant.executor import hide_tools
before = open("/proc/self/environ").read()
hide_tools()
after = open("/proc/self/environ").read()
print("ASAN_OPTIONS" in before, "ASAN_OPTIONS" in after, "quiet" in after, "OTHER=kept" in after)
print("ASAN_OPTIONS" in os.environ, os.environ["OTHER"])
"""


def test_variables_of_tools_are_nowhere_to_be_read():
    environment = {**os.environ, "ASAN_OPTIONS": "verbosity=0:quiet=1", "OTHER": "kept"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.split() == ["True", "False", "False", "True", "False", "kept"]
