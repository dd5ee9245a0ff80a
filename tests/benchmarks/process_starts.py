"""Starts contestants executed and forked, in turns: time until each listens, and of all cores to its end.

python tests/benchmarks/process_starts.py
"""

from __future__ import annotations

import itertools
import statistics
import time

from support.machine import busy_s

from kernelwright.evaluator import EvaluationConfig, SandboxTier
from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage, connected, preloaded
from kernelwright.evaluator.ipc.channel import Channel
from kernelwright.evaluator.ipc.contestant_messages import Listening
from kernelwright.evaluator.ipc.messages import decode
from kernelwright.evaluator.sandbox import Launcher

REPEATS = 15
THREADS = 2
TIMEOUT_S = 120.0
SERIAL = itertools.count(1)


def measure(launcher: Launcher, image: RuntimeImage, preload: tuple[str, ...]) -> tuple[float, float]:
    """Start one contestant and end it."""
    libraries = image.built_folder(str(next(SERIAL)))
    policy = image.contestant_policy(EvaluationConfig(), device="cpu", libraries=libraries, threads=THREADS)
    busy, began = busy_s(), time.perf_counter()
    end, process = connected(
        lambda fd: launcher.start(image.command("contestant", fd), policy, fds=(fd,), preload=preload)
    )
    with end:
        decode(Channel(end).receive(TIMEOUT_S), Listening)
        listening_s = time.perf_counter() - began
        process.kill()
    return listening_s, busy_s() - busy


def main() -> None:
    """Measure in turns, on a machine where nothing else works."""
    taken: dict[str, list[tuple[float, float]]] = {"executed": [], "forked": []}
    image = RuntimeImage(SandboxTier.BUBBLEWRAP)
    try:
        with Launcher() as launcher:
            for number in range(REPEATS + 1):
                for name, preload in (("executed", ()), ("forked", preloaded("cpu"))):
                    found = measure(launcher, image, preload)
                    if number > 0:  # first ones read files, and import for all
                        taken[name].append(found)
    finally:
        image.close()
    wall_s, core_s = (
        {name: statistics.median(run[place] for run in runs) for name, runs in taken.items()}
        for place in (0, 1)
    )
    for name in taken:
        print(f"{name:9s} listens after {wall_s[name]:.3f} s, costs {core_s[name]:.2f} s of one core")
    ratios = [each["executed"] / each["forked"] for each in (wall_s, core_s)]
    print(f"ratio     {ratios[0]:.1f} of time, {ratios[1]:.1f} of cores")


if __name__ == "__main__":
    main()
