"""Times the judging of one candidate, stage by stage: nothing cached, everything warm, and after a restart.

Run it with `python tests/benchmarks/judging.py cpu` or `cuda`. The candidate is the prompts' worked example.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from evaluator import (  # noqa: E402 - after the path is set
    Candidate,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    Stage,
    read_problem,
)

EXAMPLES = ROOT / "prompts" / "examples"
BACKENDS = {"cpu": "cpp", "cuda": "cuda"}


def judge(evaluator: Evaluator, device: str, shapes: str | None) -> tuple[float, Evaluation]:
    """Seconds of wall time, and the evaluation."""
    backend = BACKENDS[device]
    candidate = Candidate(source=(EXAMPLES / f"{backend}.py").read_text("utf-8"), backend=backend)
    config = EvaluationConfig(device=device, shapes=shapes, baselines=("eager",))
    began = time.monotonic()
    evaluation = evaluator.evaluate(read_problem(EXAMPLES / "reference.py"), candidate, config)
    return time.monotonic() - began, evaluation


def show(label: str, seconds: float, evaluation: Evaluation) -> None:
    """One line of the table."""
    spent = evaluation.stage_seconds
    stages = "  ".join(f"{stage} {spent[stage]:5.2f}" for stage in Stage if stage in spent)
    print(f"{label:<16} {evaluation.status:<14} {seconds:6.2f} s   {stages}", flush=True)


def main() -> None:
    """Judge three times and print where the time went."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("device", choices=tuple(BACKENDS))
    options.add_argument("--shapes", help="a name in the reference's SHAPES; default: small on the CPU")
    given = options.parse_args()
    shapes = given.shapes or ("small" if given.device == "cpu" else None)
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as cache:
        with Evaluator(cache=Path(cache)) as evaluator:
            show("nothing cached", *judge(evaluator, given.device, shapes))
            show("all warm", *judge(evaluator, given.device, shapes))
        with Evaluator(cache=Path(cache)) as evaluator:
            show("built before", *judge(evaluator, given.device, shapes))


if __name__ == "__main__":
    main()
