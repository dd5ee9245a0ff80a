"""Times one evaluation, stage by stage, from nothing cached to everything warm.

    python tests/benchmarks/evaluation_latency.py cpu
    python tests/benchmarks/evaluation_latency.py cuda --problem example 14_max_reduction

Rows: `nothing` cached, first candidate of a fresh evaluator; `fresh` candidate for a warm referee, its text
unlike any before; `known` build, the same candidate again; `restarted` evaluator with builds in the cache;
and what stops early: `wrong`, `slow` (a hundred times the work) and `broken` (does not compile).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.candidate_mix import Entry, Kind, mutated, seeds

from kernelwright.evaluator import Evaluation, EvaluationConfig, Evaluator, Sanitize, Stage


def judge(evaluator: Evaluator, entry: Entry, given: argparse.Namespace) -> tuple[float, Evaluation]:
    """Seconds of wall time, and the evaluation."""
    shapes = given.shapes if given.shapes in entry.problem.shapes else None
    config = EvaluationConfig(
        device=given.device,
        shapes=shapes,
        baselines=("eager",),
        sanitize=Sanitize.AUTO if given.sanitize else Sanitize.OFF,
    )
    began = time.monotonic()
    evaluation = evaluator.evaluate(entry.problem, entry.candidate, config)
    return time.monotonic() - began, evaluation


def show(label: str, seconds: float, evaluation: Evaluation) -> None:
    """One line of the table."""
    spent = evaluation.stage_seconds
    stages = "  ".join(f"{stage} {spent[stage]:5.2f}" for stage in Stage if stage in spent)
    measured = evaluation.measurement
    if measured is not None:
        low, high = measured.interval.low, measured.interval.high
        stages += (
            f"  | {measured.candidate.median_ms:.4f} ms, {measured.speedup:.3f}x ({low:.3f} to {high:.3f})"
            f" after {measured.candidate.turns} turns"
        )
    print(f"{label:<11} {evaluation.status:<14} {seconds:6.2f} s   {stages}", flush=True)


def follow(seed: Entry, given: argparse.Namespace) -> None:
    """All rows of one problem."""
    print(f"{seed.name}: {seed.problem.id}")
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as cache:
        with Evaluator(cache=Path(cache)) as evaluator:
            show("nothing", *judge(evaluator, seed, given))
            for number in range(given.repeats):
                show("fresh", *judge(evaluator, mutated(seed, Kind.GOOD, number + 1), given))
            for _ in range(given.repeats):
                show("known", *judge(evaluator, seed, given))
            for kind in (Kind.WRONG, Kind.SLOW, Kind.BROKEN):
                show(kind, *judge(evaluator, mutated(seed, kind, 1), given))
        with Evaluator(cache=Path(cache)) as evaluator:
            show("restarted", *judge(evaluator, seed, given))


def main() -> None:
    """Judge and print where the time went."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("device", choices=("cpu", "cuda"))
    options.add_argument("--problem", nargs="+", default=["example"], help="the worked example or recordings")
    options.add_argument("--shapes", help="a name in the problems' SHAPES; default: small on the CPU")
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--sanitize", action="store_true", help="as a run does where the tools exist")
    given = options.parse_args()
    given.shapes = given.shapes or ("small" if given.device == "cpu" else None)
    found = {seed.name: seed for seed in seeds(given.device)}
    unknown = [name for name in given.problem if name not in found]
    if unknown:
        options.error(f"no candidate for {unknown[0]!r}; known: {', '.join(found)}")
    for name in given.problem:
        follow(found[name], given)


if __name__ == "__main__":
    main()
