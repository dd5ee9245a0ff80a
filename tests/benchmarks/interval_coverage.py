"""Compares the reference with itself, so the true speedup is 1, and counts how often the interval holds it.

    python tests/benchmarks/interval_coverage.py --device cuda --repeats 50 --workers 4 --lines coverage.jsonl

Problems of 10 µs, 100 µs, 1 ms and 10 ms are sized on the device. One referee serves all repeats of a
problem. The last table also says how far the speedups really spread, which an honest interval must cover.
With `--busy`, so many cores are kept busy by other programs meanwhile: intervals hold, or are `contended`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.evaluator import (  # noqa: E402 - after the path is set
    Candidate,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Sanitize,
)
from tests.benchmarks.support.sized_problems import KINDS, Sized, length, sized  # noqa: E402

BACKENDS = {"cpu": "cpp", "cuda": "cuda"}
LENGTHS_MS = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """One evaluation of a reference against itself."""

    kind: str
    wanted_ms: float
    call_ms: float
    status: str
    speedup: float
    low: float
    high: float
    between: float | None
    """What processes of the reference were found to differ by, relative."""
    clock: str
    turns: int
    seconds: float
    charges: dict[str, float] = field(default_factory=dict)
    """Milliseconds a call that its claims left unexplained, by where."""
    launch_ms: float | None = None
    """What the host took to queue a call, where calls were queued ahead of the clock."""
    calls: int = 0
    """In a batch."""
    detail: str = ""
    """Why it did not pass."""
    contended: bool = False
    competing: float = 0.0
    """Threads of other programs that had no core."""

    @property
    def holds(self) -> bool:
        """Whether the interval contains the truth, which is one."""
        return self.low <= 1.0 <= self.high

    @property
    def half_width(self) -> float:
        """Of the interval, relative to the speedup."""
        return (self.high - self.low) / 2 / self.speedup


def main() -> int:
    """Repeat and print the table."""
    options = _options()
    if options.read:
        lines = options.read.read_text("utf-8").splitlines()
        repeats = [Repeat(**json.loads(line)) for line in lines]
    else:
        with _busy_cores(options.busy):
            repeats = _measure(options)
    print(table(repeats))
    if options.markdown:
        options.markdown.write_text(table(repeats, markdown=True) + "\n", "utf-8")
    return 0


@contextmanager
def _busy_cores(count: int) -> Iterator[None]:
    """Keep cores busy with processes that do nothing but spin."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=tuple(BACKENDS), default="cpu")
    parser.add_argument("--repeats", type=int, default=50, help="per length")
    parser.add_argument("--lengths-ms", type=float, nargs="+", default=LENGTHS_MS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--workers", type=int, default=1, help="evaluations at a time; the clock takes turns")
    parser.add_argument("--busy", type=int, default=0, help="cores that other programs keep busy meanwhile")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start no repeat after this")
    parser.add_argument("--lines", type=Path, help="write a JSON line per repeat, as it comes")
    parser.add_argument("--from", dest="read", type=Path, help="measure nothing: read such lines")
    parser.add_argument("--markdown", type=Path, help="write the table")
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> list[Repeat]:
    until = time.monotonic() + options.budget_s
    problems = [sized(kind, ms, options.device) for ms in options.lengths_ms for kind in options.kinds]
    for each in problems:
        print(f"{each.label:<20} sized to {each.found_ms * 1e3:.1f} µs", flush=True)
    share = math.ceil(options.repeats / len(options.kinds))
    config = EvaluationConfig(device=options.device, baselines=("eager",), trials=2, sanitize=Sanitize.OFF)
    repeats: list[Repeat] = []
    guard = threading.Lock()

    def work(mine: list[Sized]) -> None:
        """Repeat some problems in rounds, so that lost time is lost by all of them alike."""
        for _ in range(share):
            for problem in mine:
                if time.monotonic() > until:
                    return
                done = _repeat(evaluator, problem, config, BACKENDS[options.device])
                with guard:
                    repeats.append(done)
                    _report(done, options.lines, len(repeats))

    with (
        tempfile.TemporaryDirectory(prefix="kernelwright-aa-") as cache,
        Evaluator(cache=Path(cache), idle_referees=len(problems)) as evaluator,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        list(pool.map(work, [problems[number :: options.workers] for number in range(options.workers)]))
    return repeats


def _repeat(evaluator: Evaluator, problem: Sized, config: EvaluationConfig, backend: str) -> Repeat:
    source = problem.problem.source.replace("class Model(", "class ModelNew(")
    began = time.monotonic()
    status, measured, detail = "BROKEN", None, ""
    try:
        evaluation = evaluator.evaluate(problem.problem, Candidate(source=source, backend=backend), config)
        status, measured, detail = evaluation.status.value, evaluation.measurement, evaluation.detail
    except EvaluatorError as error:
        print(f"{problem.label}: {error}", flush=True)
    nothing = math.nan
    return Repeat(
        kind=problem.kind,
        wanted_ms=problem.wanted_ms,
        call_ms=measured.candidate.median_ms if measured else nothing,
        status=status,
        speedup=measured.speedup if measured else nothing,
        low=measured.interval.low if measured else nothing,
        high=measured.interval.high if measured else nothing,
        between=measured.process_spread if measured else None,
        clock=measured.candidate.clock if measured else "",
        turns=measured.candidate.turns if measured else 0,
        seconds=round(time.monotonic() - began, 1),
        charges=dict(measured.candidate.charges) if measured else {},
        launch_ms=measured.candidate.launch_ms if measured else None,
        calls=measured.calls_per_batch if measured else 0,
        detail=detail,
        contended=measured.contended if measured else False,
        competing=measured.candidate.competing if measured else 0.0,
    )


def _report(done: Repeat, lines: Path | None, number: int) -> None:
    if lines is not None:
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(done)) + "\n")
    mark = "" if done.holds else "  does not hold 1"
    mark += f"  contended ({done.competing:.2f})" if done.contended else ""
    print(
        f"[{number:3}] {done.kind} {length(done.wanted_ms)}: {done.status} {done.speedup:.4f} "
        f"[{done.low:.4f}, {done.high:.4f}] {done.clock}, {done.calls} calls a batch"
        f"{'' if done.launch_ms is None else ' queued'}, {done.seconds} s{mark} {done.detail}",
        flush=True,
    )


HEAD = (
    *("length", "repeats", "contended", "others hold 1", "median half-width"),
    *("median speedup", "spread", "furthest", "between"),
)


def table(repeats: Iterable[Repeat], *, markdown: bool = False) -> str:
    """One line a length and kind, one a length, and their sum."""
    known = list(repeats)
    lines = [HEAD]
    for ms in sorted({each.wanted_ms for each in known}):
        of_length = [each for each in known if each.wanted_ms == ms]
        for kind in sorted({each.kind for each in of_length}):
            lines.append(_line(f"{length(ms)}, {kind}", [e for e in of_length if e.kind == kind]))
        lines.append(_line(length(ms), of_length))
    lines.append(_line("all", known))
    if markdown:
        lines.insert(1, ("---",) + ("---:",) * (len(HEAD) - 1))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)


def _line(label: str, repeats: list[Repeat]) -> tuple[str, ...]:
    scored = [each for each in repeats if math.isfinite(each.speedup)]
    timed = [each for each in scored if not each.contended]
    counts = (label, str(len(repeats)), str(len(scored) - len(timed)))
    if not timed:
        return (*counts, "0/0", *[""] * (len(HEAD) - 4))
    speedups = [each.speedup for each in timed]
    spread = statistics.stdev(map(math.log, speedups)) if len(timed) > 1 else 0.0
    between = [each.between for each in timed if each.between is not None]
    return (
        *counts,
        f"{sum(each.holds for each in timed)}/{len(timed)}",
        f"{statistics.median(each.half_width for each in timed):.2%}",
        f"{statistics.median(speedups):.4f}",
        f"{spread:.2%}",
        f"{max(speedups, key=lambda value: abs(math.log(value))):.4f}",
        f"{statistics.median(between):.2%}" if between else "",
    )


if __name__ == "__main__":
    sys.exit(main())
