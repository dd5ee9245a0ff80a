"""Times the command line: medians of fresh processes, and ratios to a bare interpreter's.

python tests/benchmarks/startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPEATS = 9
COMMANDS = {
    "a bare interpreter": ["-I", "-c", "pass"],
    "import kernelwright.agent": ["-c", "import kernelwright.agent"],
    "import kernelwright.evaluator": ["-c", "import kernelwright.evaluator"],
    "kernelwright --version": ["-m", "kernelwright.agent.cli", "--version"],
    "kernelwright --help": ["-m", "kernelwright.agent.cli", "--help"],
    "kernelwright run --help": ["-m", "kernelwright.agent.cli", "run", "--help"],
    "kernelwright problems list": ["-m", "kernelwright.agent.cli", "problems", "list"],
}


def measure(arguments: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure in turns, so that a change of the machine's load meets every command."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, arguments in COMMANDS.items():
            taken[name].append(measure(arguments))
    bare = statistics.median(cpu_s for _, cpu_s in taken["a bare interpreter"])
    for name, runs in taken.items():
        wall = statistics.median(seconds for seconds, _ in runs)
        cpu_s = statistics.median(cpu_s for _, cpu_s in runs)
        print(f"{name:28s} {wall * 1e3:7.0f} ms   {cpu_s * 1e3:7.0f} ms of one core   {cpu_s / bare:6.1f}x")


if __name__ == "__main__":
    main()
