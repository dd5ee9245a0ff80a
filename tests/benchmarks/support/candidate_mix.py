"""Candidates for the benchmarks: recorded replies, and mutations whose correct status is known.

Every seed is an honest candidate; a mutation changes its text so that the right verdict is known.
"""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from kernelwright.agent.extraction.extract import extract  # noqa: E402 - after the path is set
from kernelwright.evaluator import Candidate, Problem, Status, find_problems, read_problem  # noqa: E402

EXAMPLES = ROOT / "prompts" / "examples"
RECORDINGS = ROOT / "prompts" / "recordings"
BACKENDS = {"cpu": "cpp", "cuda": "cuda"}
_SOURCE = re.compile(r'(r?"""\s*\n)(?=[^"]*#include)')
"""Where a C++ or CUDA text begins."""


class Kind(StrEnum):
    """What was done to a seed."""

    GOOD = "good"
    WRONG = "wrong"
    BROKEN = "broken"
    RAISING = "raising"
    HANGING = "hanging"
    SLOW = "slow"


EXPECTED = {
    Kind.GOOD: Status.PASSED,
    Kind.WRONG: Status.WRONG_VALUES,
    Kind.BROKEN: Status.COMPILE_ERROR,
    Kind.RAISING: Status.RUNTIME_ERROR,
    Kind.HANGING: Status.TIMED_OUT,
    Kind.SLOW: Status.PASSED,
}
_FORWARDS = {
    Kind.WRONG: "out = super().forward(*args)\n"
    "        wrong = [each * 1.01 + 0.01 for each in (out if isinstance(out, tuple) else (out,))]\n"
    "        return tuple(wrong) if isinstance(out, tuple) else wrong[0]",
    Kind.RAISING: "raise ValueError('no such thing')",
    Kind.HANGING: "import time\n        while True:\n            time.sleep(0.01)",
    Kind.SLOW: "return [super(ModelNew, self).forward(*args) for _ in range(100)][-1]",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One candidate, its problem, and what it is."""

    name: str
    kind: Kind
    problem: Problem
    candidate: Candidate

    @property
    def expected(self) -> Status:
        """The right verdict."""
        return EXPECTED[self.kind]


def seeds(device: str) -> list[Entry]:
    """Honest candidates for a device: the last recorded reply of each problem, and the worked example."""
    backend = BACKENDS[device]
    problems = {path.stem: path for path in find_problems([ROOT / "reference_problems"])}
    example = Candidate(source=(EXAMPLES / f"{backend}.py").read_text("utf-8"), backend=backend)
    found = [Entry("example", Kind.GOOD, read_problem(EXAMPLES / "reference.py"), example)]
    for folder in sorted(RECORDINGS.glob(f"*/{backend}")):
        last = sorted(folder.glob("*.md"))[-1]
        code = extract(last.read_text("utf-8"), finish_reason="stop").code
        if code and folder.parent.name in problems:
            name = folder.parent.name
            problem = read_problem(problems[name])
            found.append(Entry(name, Kind.GOOD, problem, Candidate(source=code, backend=backend)))
    return found


def mutated(seed: Entry, kind: Kind, number: int = 0) -> Entry:
    """A seed changed; `number` makes its C++ text unlike any other's, so that no cache knows it."""
    line = "int surely = not_declared_anywhere;" if kind is Kind.BROKEN else ""
    mark = f"// variant {number} {kind}"
    source = _SOURCE.sub(lambda found: f"{found[1]}{mark}\n{line}\n", seed.candidate.source, count=1)
    if source == seed.candidate.source:
        raise ValueError(f"{seed.name} holds no C++ text to change")
    if kind in _FORWARDS:
        source += f"\n\nclass ModelNew(ModelNew):\n    def forward(self, *args):\n        {_FORWARDS[kind]}\n"
    candidate = Candidate(source=source, backend=seed.candidate.backend)
    return Entry(f"{seed.name}/{kind}{number or ''}", kind, seed.problem, candidate)


def many(device: str, problems: int, each: int) -> list[Entry]:
    """So many candidates for each of some problems: half of them good, a quarter wrong, a quarter broken."""
    kinds = [(Kind.GOOD, Kind.WRONG, Kind.GOOD, Kind.BROKEN)[number % 4] for number in range(each)]
    return [
        mutated(seed, kind, 1 + number)
        for seed in seeds(device)[:problems]
        for number, kind in enumerate(kinds)
    ]


def mixture(device: str, *, limit: int | None = None) -> list[Entry]:
    """Good, wrong and broken candidates of every seed, some that raise and hang, grouped by problem.

    With `limit`, so many of them, spread evenly.
    """
    found = seeds(device)
    entries: list[Entry] = []
    rare = itertools.cycle((Kind.RAISING, Kind.HANGING, None, None, None, None, None, None))
    for seed, extra in zip(found, rare, strict=False):
        kinds = (Kind.GOOD, Kind.WRONG, Kind.BROKEN, *((extra,) if extra else ()))
        entries += [mutated(seed, kind, 1) for kind in kinds]
    entries += [mutated(seed, Kind.GOOD, 2) for seed in found[: max(0, 60 - len(entries))]]
    entries.sort(key=lambda entry: entry.problem.id)
    if limit is None or limit >= len(entries):
        return entries
    return [entries[number * len(entries) // limit] for number in range(limit)]
