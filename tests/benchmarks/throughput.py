"""Counts evaluations per hour: ours with several at once, and a plain serial evaluator.

    python tests/benchmarks/throughput.py cpu
    python tests/benchmarks/throughput.py cuda --limit 40 --serial 8
    python tests/benchmarks/throughput.py cuda --problems 6 --each 20 --workers 12 --serial 0

Both get the same mixture of good, wrong, broken, raising and hanging candidates with the same time limits,
and nothing is cached before. The serial evaluator may be given a sample only, of each kind its share; its
rate is then taken for the whole mixture, and the output says so. Verdicts are compared with each other and
with what is known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.candidate_mix import Entry, Kind, many, mixture
from support.machine import busy_s

from kernelwright.agent.runner.evaluation_scheduler import EvaluationScheduler
from kernelwright.evaluator import (
    Evaluation,
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Limits,
    Sanitize,
    Status,
)
from kernelwright.evaluator.host import trace

HERE = Path(__file__).resolve().parent
BUILD_S, CALL_S, LOAD_S = 300.0, 5.0, 60.0
OVERHEAD_S = 60.0
"""For the serial evaluator: importing torch, making inputs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one candidate ended."""

    status: str
    seconds: float
    stages: dict[str, float]
    detail: str = ""
    device_s: float | None = None
    """Seconds it had the device alone."""


def config(device: str, shapes: str | None) -> EvaluationConfig:
    return EvaluationConfig(
        device=device,
        shapes=shapes,
        baselines=("eager",),
        sanitize=Sanitize.OFF,
        limits=Limits(build_s=BUILD_S, call_s=CALL_S, load_s=LOAD_S),
    )


def ours(entries: list[Entry], options: argparse.Namespace) -> tuple[float, list[Verdict]]:
    """All candidates through one evaluator, in the order a run takes them; seconds, and the verdicts."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as cache:
        began, worked_s = time.monotonic(), busy_s()
        with Evaluator(cache=Path(cache), idle_referees=options.workers) as evaluator:
            verdicts = asyncio.run(judged(entries, evaluator, options))
        seconds = time.monotonic() - began
    alone_s = sum(verdict.device_s or 0.0 for verdict in verdicts)
    print(f"{(busy_s() - worked_s) / seconds:.1f} cores busy; the device was held alone {alone_s:.0f} s")
    return seconds, verdicts


async def judged(entries: list[Entry], evaluator: Evaluator, options: argparse.Namespace) -> list[Verdict]:
    """Verdicts in the order of the entries."""
    workers = EvaluationScheduler(options.workers)

    async def one(entry: Entry) -> Verdict:
        began = 0.0

        def work() -> Evaluation:
            nonlocal began
            began = time.monotonic()
            chosen = config(options.device, shapes_of(entry, options))
            return evaluator.evaluate(entry.problem, entry.candidate, chosen)

        try:
            found = await workers.run(entry.problem.id, work)
        except EvaluatorError as error:
            return Verdict(type(error).__name__, time.monotonic() - began, {}, str(error)[:300])
        spent = time.monotonic() - began
        show(entry, found.status, spent, found.stage_seconds, found.device_seconds)
        return Verdict(found.status, spent, found.stage_seconds, found.detail, found.device_seconds)

    try:
        return list(await asyncio.gather(*map(one, entries)))
    finally:
        workers.close()


def shapes_of(entry: Entry, options: argparse.Namespace) -> str | None:
    """The asked shapes, where the problem has them."""
    return options.shapes if options.shapes in entry.problem.shapes else None


def show(entry: Entry, status: str, seconds: float, stages: dict[str, float], device_s: float | None) -> None:
    spent = " ".join(f"{name} {value:.1f}" for name, value in stages.items())
    alone = f"  alone {device_s:.1f}" if device_s else ""
    print(f"  {entry.name:34s} {status:14s} {seconds:6.1f} s  {spent}{alone}", flush=True)


def serially(entries: list[Entry], options: argparse.Namespace) -> list[Verdict]:
    """Each candidate in a process of its own, one after another; after Ctrl-C, of those that were judged."""
    verdicts: list[Verdict] = []
    with suppress(KeyboardInterrupt):
        for entry in entries:
            verdicts.append(serial(entry, options))
    return verdicts


def serial(entry: Entry, options: argparse.Namespace) -> Verdict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as name:
        folder = Path(name)
        (folder / "problem.py").write_text(entry.problem.source)
        (folder / "candidate.py").write_text(entry.candidate.source)
        job = {
            "device": options.device,
            "overrides": entry.problem.overrides(shapes_of(entry, options)),
        }
        (folder / "job.json").write_text(json.dumps(job))
        verdict = watched(folder)
    spent = time.monotonic() - started
    print(f"  {entry.name:34s} {verdict['status']:14s} {spent:6.1f} s  (serial)", flush=True)
    return Verdict(verdict["status"], spent, {}, verdict.get("detail", ""))


def watched(folder: Path) -> dict[str, str]:
    """Run the serial evaluator's process under the time limits ours has."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"TORCH_EXTENSIONS_DIR": str(folder / "extensions"), "PATH": path}
    errors = (folder / "errors").open("w")
    process = subprocess.Popen(
        [sys.executable, str(HERE / "support" / "serial_evaluator.py"), str(folder)],
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        text=True,
    )
    with errors, process:
        said: list[str] = []
        assert process.stdout is not None
        with ThreadPoolExecutor(1) as reader:
            allowed = BUILD_S + LOAD_S
            while True:
                line = reader.submit(process.stdout.readline)
                try:
                    text = line.result(timeout=allowed)
                except TimeoutError:
                    process.kill()
                    return {"status": "TIMED_OUT"}
                if not text:
                    break
                said.append(text)
                allowed = CALL_S + OVERHEAD_S / 4 if text.strip() == "run" else BUILD_S + LOAD_S
    try:
        verdict: dict[str, str] = json.loads(said[-1])
    except (IndexError, json.JSONDecodeError):
        return {"status": "CRASHED", "detail": (folder / "errors").read_text()[-300:]}
    return verdict


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("device", choices=("cpu", "cuda"))
    options.add_argument("--limit", type=int, help="only so many candidates, spread evenly")
    options.add_argument("--serial", type=int, help="give the serial evaluator only so many; 0 for none")
    options.add_argument("--workers", type=int, help="evaluations at once; default 2 on a CPU, 6 on a GPU")
    options.add_argument("--shapes", help="a name in the problems' SHAPES; default: small on the CPU")
    options.add_argument("--problems", type=int, default=6, help="with --each: so many problems")
    options.add_argument("--each", type=int, help="so many candidates a problem instead of the mixture")
    options.add_argument("--trace", type=Path, help="write where the time goes, for trace_sums.py")
    given = options.parse_args()
    if given.trace:
        trace.begin(given.trace)
    given.workers = given.workers or {"cpu": 2, "cuda": 6}[given.device]
    given.shapes = given.shapes or ("small" if given.device == "cpu" else None)
    entries = (
        many(given.device, given.problems, given.each)
        if given.each
        else mixture(given.device, limit=given.limit)
    )
    print(f"{len(entries)} candidates: {dict(Counter(str(entry.kind) for entry in entries))}")
    seconds, verdicts = ours(entries, given)
    rate = len(entries) / seconds * 3600
    median = statistics.median(verdict.seconds for verdict in verdicts)
    print(f"ours: {seconds:.0f} s, {rate:.0f} candidates an hour, median latency {median:.1f} s")
    report(entries, verdicts, "ours")
    count = len(entries) if given.serial is None else min(given.serial, len(entries))
    if not count:
        return
    chosen = sampled(entries, count)
    random.Random(0).shuffle(chosen)  # so that those before an interruption are a sample too
    sample = [entries[number] for number in chosen]
    theirs = serially(sample, given)
    if not theirs:
        return
    sample, seconds = sample[: len(theirs)], sum(verdict.seconds for verdict in theirs)
    their_rate = len(sample) / seconds * 3600
    note = "" if len(sample) == len(entries) else f", measured on a sample of {len(sample)}"
    print(f"serial: {seconds:.0f} s, {their_rate:.0f} candidates an hour{note}")
    report(sample, theirs, "serial")
    differing = [
        f"{entry.name}: ours {verdicts[number].status}, serial {other.status}"
        for number, entry, other in zip(chosen[: len(theirs)], sample, theirs, strict=True)
        if verdicts[number].status != other.status
    ]
    print(f"verdicts that differ: {differing or 'none'}")
    print(f"ours over serial: {rate / their_rate:.1f}x")


def sampled(entries: list[Entry], count: int) -> list[int]:
    """Places of so many entries, of each kind about as large a share as there is in all."""
    kinds = list(Kind)
    by_kind = sorted(range(len(entries)), key=lambda place: (kinds.index(entries[place].kind), place))
    return sorted({by_kind[(2 * number + 1) * len(entries) // (2 * count)] for number in range(count)})


def report(entries: list[Entry], verdicts: list[Verdict], who: str) -> None:
    """What ended otherwise than is known."""
    for entry, verdict in zip(entries, verdicts, strict=True):
        if verdict.status != entry.expected:
            print(f"  {who}: {entry.name} is {verdict.status}, not {entry.expected}: {verdict.detail[:200]}")
    right = sum(
        verdict.status == Status(entry.expected) for entry, verdict in zip(entries, verdicts, strict=True)
    )
    print(f"{who}: {right} of {len(entries)} verdicts as expected")


if __name__ == "__main__":
    main()
