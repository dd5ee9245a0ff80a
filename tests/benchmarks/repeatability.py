"""Measures the same kernels cold, warm, and beside other evaluations.

    python tests/benchmarks/repeatability.py cpu
    python tests/benchmarks/repeatability.py cuda --kernels 6

Each kernel is judged alone by a fresh evaluator and again by the warm one, then while other evaluations go on
that build, load and verify. One line a kernel: its milliseconds, and speedups as ratios.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.candidate_mix import Entry, Kind, mutated, seeds

from kernelwright.evaluator import Evaluation, EvaluationConfig, Evaluator, EvaluatorError, Sanitize


def judge(evaluator: Evaluator, entry: Entry, options: argparse.Namespace) -> Evaluation:
    shapes = options.shapes if options.shapes in entry.problem.shapes else None
    config = EvaluationConfig(
        device=options.device, shapes=shapes, baselines=("eager",), sanitize=Sanitize.OFF
    )
    return evaluator.evaluate(entry.problem, entry.candidate, config)


@contextmanager
def load(evaluator: Evaluator, options: argparse.Namespace) -> Iterator[list[int]]:
    """Threads that judge wrong and broken candidates until the block ends; yields how many, per thread."""
    over = threading.Event()
    done = [0] * options.others
    found = seeds(options.device)

    def work(number: int) -> None:
        for turn in itertools.count():
            if over.is_set():
                return
            seed = found[(number + turn * options.others) % len(found)]
            kind = (Kind.WRONG, Kind.BROKEN)[turn % 2]
            try:
                judge(evaluator, mutated(seed, kind, 1000 * (number + 1) + turn), options)
            except EvaluatorError as error:
                print(f"  beside: {seed.name}: {error}")
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(options.others)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        over.set()
        for thread in threads:
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--kernels", type=int, default=6, help="how many, spread evenly over the recordings")
    parser.add_argument("--others", type=int, help="evaluations beside; default 1 on a CPU, 5 on a GPU")
    parser.add_argument("--shapes", help="a name in the problems' SHAPES; default: small on the CPU")
    options = parser.parse_args()
    options.others = options.others or {"cpu": 1, "cuda": 5}[options.device]
    options.shapes = options.shapes or ("small" if options.device == "cpu" else None)
    found = seeds(options.device)
    chosen = [
        found[number * len(found) // options.kernels] for number in range(min(options.kernels, len(found)))
    ]
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as cache:
        measure(chosen, Path(cache), options)


def measure(chosen: list[Entry], cache: Path, options: argparse.Namespace) -> None:
    """Judge every kernel three times and print what became of it, as it becomes known."""
    alone: list[tuple[Evaluation, Evaluation]] = []
    for entry in chosen:
        with Evaluator(cache=cache) as evaluator:
            alone.append((judge(evaluator, entry, options), judge(evaluator, entry, options)))
    warm_ratios: list[float] = []
    loaded_ratios: list[float] = []
    with (
        Evaluator(cache=cache, idle_referees=options.others + 1) as evaluator,
        load(evaluator, options) as done,
    ):
        for entry, (cold, warm) in zip(chosen, alone, strict=True):
            print(f"{entry.name}", flush=True)
            beside = judge(evaluator, entry, options)
            warm_ratios += ratio("warm", warm, cold)
            loaded_ratios += ratio(f"beside {sum(done)} others so far", beside, warm)
    for name, ratios in (("warm over cold", warm_ratios), ("loaded over warm", loaded_ratios)):
        if ratios:
            worst = max(max(each, 1 / each) for each in ratios)
            print(f"{name}: time median {statistics.median(ratios):.4f}, worst {worst:.4f}")


def ratio(name: str, one: Evaluation, other: Evaluation) -> list[float]:
    """Print a kernel's times and speedups in two evaluations; the ratio of the times, if both were timed."""
    mine, theirs = one.measurement, other.measurement
    if mine is None or theirs is None:
        print(
            f"  {name:26s} {one.status} {one.detail[:120]} | {other.status} {other.detail[:120]}", flush=True
        )
        return []
    times = mine.candidate.median_ms, theirs.candidate.median_ms
    found = times[0] / times[1]
    print(
        f"  {name:26s} {times[0]:.4f} ms over {times[1]:.4f} ms: {found:.4f}"
        f" | speedup {mine.speedup:.4f} and {theirs.speedup:.4f}",
        flush=True,
    )
    return [found]


if __name__ == "__main__":
    main()
