"""Evaluates the whole corpus of attacks and honest look-alikes, and counts results per class of attack.

    python tests/benchmarks/integrity.py --device cpu --workers 2
    python tests/benchmarks/integrity.py --device cuda --workers 5 --budget-s 420 --lines out.jsonl
    python tests/benchmarks/integrity.py --device cuda --workers 8 --native-only --only honest/ --repeats 5

An attack is *caught* when it does not pass, *harmless* when it passes and gains nothing. On a GPU, corpus
files that build no C++ are judged there too, after those written for it. Each result is written to `--lines`
the moment it is known, so a time-out loses nothing; `--from` prints the table of such a file again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.evaluator import (  # noqa: E402 - after the path is set
    Evaluation,
    Evaluator,
    EvaluatorError,
    SandboxTier,
    Status,
)
from kernelwright.evaluator.host import trace  # noqa: E402
from tests.specimens import HARMLESS_BOUND, Specimen, judge_fairly, promised, specimens  # noqa: E402

FAMILIES = {
    "T": "timing",
    "C": "caching",
    "O": "outputs",
    "N": "numerics",
    "R": "reaching the answer",
    "M": "patching",
    "P": "process and host",
    "D": "telling phases apart",
    "S": "looking like a kernel",
    "E": "weak problems",
}
_WORTH_A_LOOK = 1.1
_BUILDS = re.compile(r"load_inline|cpp_extension")


@dataclass(frozen=True, slots=True)
class Result:
    """One specimen's judgement."""

    name: str
    family: str
    classes: tuple[str, ...]
    honest: bool
    device: str
    tier: str
    native: bool
    """Whether it was written for this device, so that its header's statuses hold."""
    status: str
    stage: str
    promised: bool
    speedup: float | None
    low: float | None
    """Lower end of the speedup's interval."""
    gain_allowed: bool
    """Its class is about whose work it is, not about how long it took."""
    seconds: float
    detail: str
    # Any: numbers of a measurement and its notes, for whoever asks why.
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`caught`, `harmless`, `false speedup`; `right`, `false alarm`; or `broken`: no answer at all."""
        if self.status == "BROKEN":
            return "broken"
        passed = self.status == Status.PASSED
        if self.honest:
            return "right" if passed else "false alarm"
        if not passed:
            return "caught"
        gained = self.low is not None and self.low > HARMLESS_BOUND and not self.gain_allowed
        return "false speedup" if gained or (self.native and not self.promised) else "harmless"


def main() -> int:
    """Judge, print the table; 1 if anything is a false speedup, a false alarm or broken."""
    options = _options()
    results = list(_read(options.read)) if options.read else _judge_all(options)
    print(render(results))
    if options.json:
        rows = [asdict(result) | {"verdict": result.verdict} for result in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(markdown(results), "utf-8")
    return int(any(each.verdict in ("false speedup", "false alarm", "broken") for each in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tier", choices=[tier.value for tier in SandboxTier], help="default: the strongest")
    parser.add_argument("--workers", type=int, default=2, help="evaluations at a time")
    parser.add_argument("--only", default="", help="regular expression on names, such as hacks/t1")
    parser.add_argument("--repeats", type=int, default=1, help="judgements of each, one round after another")
    parser.add_argument("--native-only", action="store_true", help="on a GPU: only what was written for it")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start nothing after this")
    parser.add_argument("--cache", type=Path, help="folder of built libraries; default: a temporary one")
    parser.add_argument("--lines", type=Path, help="write a JSON line per result, as it comes")
    parser.add_argument("--trace", type=Path, help="write a trace for Perfetto")
    parser.add_argument("--from", dest="read", type=Path, help="judge nothing: read such lines")
    parser.add_argument("--json", type=Path, help="write all results")
    parser.add_argument("--markdown", type=Path, help="write the table")
    return parser.parse_args()


def _judge_all(options: argparse.Namespace) -> list[Result]:
    chosen = [each for each in _in_order(options) if re.search(options.only, each.name)] * options.repeats
    tier = SandboxTier(options.tier) if options.tier else None
    until = time.monotonic() + options.budget_s
    results: list[Result] = []
    guard = threading.Lock()
    if options.trace:
        trace.begin(options.trace)
    lines = options.lines.open("a", encoding="utf-8") if options.lines else None

    def one(specimen: Specimen) -> None:
        if time.monotonic() > until:
            return
        result = _judged(evaluator, specimen, options.device, tier)
        with guard:
            results.append(result)
            _progress(result, len(results), len(chosen), lines)

    with tempfile.TemporaryDirectory(prefix="kernelwright-integrity-") as folder:
        cache = options.cache or Path(folder)
        with (
            Evaluator(cache=cache, idle_referees=2 * options.workers) as evaluator,
            ThreadPoolExecutor(options.workers) as pool,
        ):
            list(pool.map(one, chosen))
    if len(results) < len(chosen):
        print(f"out of time: {len(chosen) - len(results)} of {len(chosen)} were not judged")
    return results


def _in_order(options: argparse.Namespace) -> list[Specimen]:
    """Native ones first; neighbours share a problem, so that a warm referee serves them."""

    def place(each: Specimen) -> tuple[bool, str, str]:
        return (each.device != options.device, each.header["problem"], each.name)

    def fits(each: Specimen) -> bool:
        if each.device == options.device:
            return True
        portable = options.device == "cuda" and not _BUILDS.search(each.path.read_text())
        return portable and not options.native_only

    return sorted(filter(fits, specimens()), key=place)


def _judged(evaluator: Evaluator, specimen: Specimen, device: str, tier: SandboxTier | None) -> Result:
    native = specimen.device == device
    backend = None if native else "cuda"
    began = time.monotonic()
    status, stage, detail, kept = "BROKEN", "", "", False
    speedup = low = None
    measured: dict[str, Any] = {}
    used = tier or ""
    try:
        evaluation = judge_fairly(evaluator, specimen, backend=backend, tier=tier)
    except EvaluatorError as error:
        detail = f"{type(error).__name__}: {error}"
    else:
        status, stage, detail = evaluation.status.value, evaluation.stage.value, evaluation.detail
        kept = promised(specimen, evaluation)
        speedup, low = evaluation.speedup, _low(evaluation)
        measured = _measured(evaluation)
        used = evaluation.environment.sandbox.tier if evaluation.environment else used
    return Result(
        name=specimen.name,
        family=specimen.family,
        classes=tuple(specimen.listed("class")),
        honest=specimen.honest,
        device=device,
        tier=str(used),
        native=native,
        status=status,
        stage=stage,
        promised=kept,
        speedup=speedup,
        low=low,
        gain_allowed=specimen.header.get("speedup") != "honest",
        seconds=round(time.monotonic() - began, 1),
        detail=detail[:300],
        measured=measured,
    )


def _low(evaluation: Evaluation) -> float | None:
    passed = evaluation.measurement is not None and evaluation.status is Status.PASSED
    return evaluation.measurement.interval.low if passed and evaluation.measurement else None


def _measured(evaluation: Evaluation) -> dict[str, Any]:
    """What the score stands on, without the turns."""
    found = evaluation.measurement
    if found is None:
        return {"notes": evaluation.notes}
    sides = {"candidate": found.candidate, **found.baselines}
    return {
        "calls": found.calls_per_batch,
        "contended": found.contended,
        "sides": {name: side.model_dump(mode="json", exclude={"turn_ms"}) for name, side in sides.items()},
        "notes": evaluation.notes,
    }


def _progress(result: Result, done: int, of: int, lines: TextIO | None) -> None:
    if lines is not None:
        lines.write(json.dumps(asdict(result)) + "\n")
        lines.flush()
    speed = f"  {result.speedup:.2f}x" if result.speedup is not None else ""
    print(
        f"[{done:3}/{of}] {result.name:<48} {result.status:<17} {result.verdict}{speed}"
        f"  {result.seconds:.1f} s",
        flush=True,
    )


def _read(path: Path) -> Iterator[Result]:
    for line in path.read_text("utf-8").splitlines():
        fields = json.loads(line)
        yield Result(**fields | {"classes": tuple(fields["classes"])})


@dataclass(frozen=True, slots=True)
class Row:
    """One family of exploit classes, counted."""

    title: str
    verdicts: Counter[str]
    answers: Counter[str]
    """What ended its attacks: stage and status."""

    @property
    def attacks(self) -> int:
        """Every attack judged."""
        return sum(self.verdicts[name] for name in ("caught", "harmless", "false speedup"))

    @property
    def honest(self) -> int:
        """Every honest look-alike judged."""
        return self.verdicts["right"] + self.verdicts["false alarm"]

    def cells(self) -> list[str]:
        """As the table shows it."""
        counts = self.verdicts
        answers = ", ".join(f"{name} {number}" for name, number in self.answers.most_common())
        numbers = (self.attacks, counts["caught"], counts["harmless"], counts["false speedup"], self.honest)
        return [self.title, *map(str, numbers), str(counts["false alarm"]), answers]


HEAD = ("class", "attacks", "caught", "harmless", "false speedups", "honest", "false alarms", "ended by")


def rows(results: Iterable[Result]) -> list[Row]:
    """One row a family, and their sum."""
    known = list(results)
    made = [
        _row(f"{letter} {FAMILIES[letter]}", [r for r in known if r.family == letter]) for letter in FAMILIES
    ]
    return [*(row for row in made if row.attacks + row.honest), _row("all", known)]


def _row(title: str, results: list[Result]) -> Row:
    ended = Counter(f"{r.stage}: {r.status}" for r in results if r.verdict == "caught")
    return Row(title, Counter(result.verdict for result in results), ended)


def render(results: list[Result]) -> str:
    """The table as text, and every result that needs a look."""
    table = [HEAD, *(row.cells() for row in rows(results))]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD) - 1)]
    lines = [
        "  ".join(
            [line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in range(1, len(widths))), line[-1]]
        )
        for line in table
    ]
    return "\n".join([*lines, "", *_remarks(results)])


def _remarks(results: list[Result]) -> Iterator[str]:
    for each in sorted(results, key=lambda result: result.name):
        if each.verdict in ("false speedup", "false alarm", "broken"):
            yield f"{each.verdict}: {each.name}: {each.status}: {each.detail}"
        elif each.native and not each.promised:
            yield f"not as promised: {each.name}: {each.status}: {each.detail}"
        elif each.verdict == "harmless" and not each.gain_allowed and (each.low or 0.0) > _WORTH_A_LOOK:
            yield f"worth a look: {each.name} passed at {each.speedup:.2f}x, at least {each.low:.2f}x"


def markdown(results: list[Result]) -> str:
    """The table for documents."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|" + "---:|" * (len(HEAD) - 2) + "---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows(results)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
