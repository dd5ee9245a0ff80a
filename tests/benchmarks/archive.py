"""Times readers of a large archive: resuming a run, the leaderboard, its pages, and the memory of each.

Writes a run of many attempts with real texts first (6 GB for the default 100,000 attempts of 60 KiB), then
measures each reader in a process of its own. Run it with `python tests/benchmarks/archive.py`; `--attempts`
and `--text-kib` make it smaller, `--keep FOLDER` keeps the archive for another time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.agent.archive import Archive, RunLog, begin_run, resume_run  # noqa: E402 - after the path is set
from kernelwright.agent.leaderboard import board  # noqa: E402
from kernelwright.agent.leaderboard.html import write_pages  # noqa: E402
from kernelwright.agent.records.attempt_log import AssignmentDone  # noqa: E402
from kernelwright.evaluator import Status  # noqa: E402

PROBLEMS, MODELS = 250, 4
LIMITS = {"resume": 5.0, "leaderboard": 10.0, "pages": 60.0}
LIMIT_GIB = 1.0
OUTCOMES = (Status.PASSED,) * 4 + (Status.WRONG_VALUES, Status.COMPILE_ERROR, Status.NO_CODE, Status.TAMPERED)


def builders() -> ModuleType:
    """The tests' builders of real records."""
    spec = importlib.util.spec_from_file_location("builders", ROOT / "tests/agent/conftest.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("tests/agent/conftest.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, attempts: int, text_kib: int) -> float:
    """Write one run; returns the seconds it took."""
    make = builders().Make()
    problems = [make.problem(f"level{1 + number % 3}/{number:03}_problem") for number in range(PROBLEMS)]
    dice = random.Random(0)
    words = " ".join(f"{dice.random():.12f}" for _ in range(200_000))
    began = time.perf_counter()
    with begin_run(Archive(folder / "runs"), "{}", problems, sync=False) as log:
        for number in range(attempts):
            write_one(make, log, number, words, dice, text_kib)
        for problem in problems[: PROBLEMS // 2]:
            log.append(
                AssignmentDone(
                    at="2026-01-01T00:00:00+00:00", problem=problem.id, backend="cpp", model="m", attempts=1
                )
            )
    return time.perf_counter() - began


def write_one(make: Any, log: RunLog, number: int, words: str, dice: random.Random, text_kib: int) -> None:
    """Record one reply of the given median length and a verdict on it."""
    problem = make.problem(f"level{1 + number % PROBLEMS % 3}/{number % PROBLEMS:03}_problem")
    key = make.key(
        log.run,
        problem=problem.id,
        model=f"model-{number // PROBLEMS % MODELS}",
        sample=number // PROBLEMS // MODELS,
    )
    status = dice.choice(OUTCOMES)
    length = int(text_kib * 1024 * dice.lognormvariate(0, 0.4))
    start = dice.randrange(len(words) // 2)
    text = words[start : start + length] + (make.reply(number) if status is not Status.NO_CODE else "")
    attempt = log.record_completion(key, make.answer(key, text))
    speedup = dice.lognormvariate(0.2, 0.4)
    turns = tuple(dice.random() for _ in range(24))
    evaluation = make.evaluation(status, speedup, problem=problem, source=str(number))
    if evaluation.measurement is not None:
        measured = evaluation.measurement.model_copy(update={"turn_ms": {"candidate": turns, "eager": turns}})
        evaluation = evaluation.model_copy(update={"measurement": measured})
    log.record_evaluation(attempt, evaluation)


def measure(what: str, folder: Path) -> None:
    """Do one thing and print its seconds and the peak memory as JSON."""
    archive = Archive(folder / "runs")
    began, began_cpu = time.perf_counter(), time.process_time()
    if what == "resume":
        with resume_run(archive, sync=False) as log:
            amount = len(log.index.attempts)
    elif what == "pages":
        amount = write_pages(archive, folder / "leaderboard.html", made="now").attempts
    else:
        amount = board(archive.attempts()).attempts
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    memory_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "memory_gib": memory_gib, "attempts": amount}))


def main() -> None:
    """Write, measure each reader three times, print the medians."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--attempts", type=int, default=100_000)
    options.add_argument("--text-kib", type=int, default=60)
    options.add_argument("--keep", type=Path)
    options.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure:
        measure(asked.measure[0], Path(asked.measure[1]))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        if not Archive(folder / "runs").runs():
            seconds = write(folder, asked.attempts, asked.text_kib)
            rate = asked.attempts / seconds
            print(f"wrote {asked.attempts:,} attempts in {seconds:.0f} s ({rate:,.0f} a second)")
        for what, limit_s in LIMITS.items():
            report(what, limit_s, folder)


def report(what: str, limit_s: float, folder: Path) -> None:
    """Measure one reader three times, each in a fresh process, and print its median."""
    command = [sys.executable, __file__, "--measure", what, str(folder)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    median = sorted(runs, key=lambda run: run["seconds"])[1]
    print(
        f"{what:12} {median['seconds']:6.2f} s (limit {limit_s:g} s; {median['cpu_s']:.2f} s of one core)   "
        f"{median['memory_gib']:5.2f} GiB (limit {LIMIT_GIB:g} GiB)   {median['attempts']:,} attempts"
    )


if __name__ == "__main__":
    main()
