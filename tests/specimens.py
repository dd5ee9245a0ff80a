"""The corpus read and judged: candidates under a header that names what they must earn.

A file of `tests/corpus/` is a whole candidate under a header of `# key: value` comments:

- `status`: what it must earn, alternatives separated by `|`
- `speedup: honest`: it may pass, but gains nothing
- `class`: ids that `evaluator/INTEGRITY.md` defines; for honest files, the family it resembles
- `problem`, `shapes`, `backend`: what it is judged on
- `baselines`: what it is timed against, if not eager alone
- `track`: whose work it may be credited as, where that was found out
- `needs: sanitizer`: passes where none ran
- `needs: short-limits`: it never ends, and is stopped early
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernelwright.evaluator import (
    BACKENDS,
    Candidate,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    Limits,
    Problem,
    SandboxTier,
    Status,
    read_problem,
)

CORPUS = Path(__file__).parent / "corpus"
PROBLEMS = (Path(__file__).parents[1] / "reference_problems", Path(__file__).parent / "problems")
HARMLESS_BOUND: Final = 1.3
"""What the lower end of the interval stays below where nothing is gained: on a shared CPU times wander."""
_CALL_S, _LOAD_S, _BUILD_S = 5.0, 20.0, 300.0
_SHORT_S = 5.0
_MEMORY_GIB = 4.0
_EVERYDAY_OF_A_CLASS: Final = 2
_HEADER = re.compile(r"# (\w+): (.*)")


@dataclass(frozen=True, slots=True)
class Specimen:
    """One file of the corpus."""

    path: Path
    header: dict[str, str]

    @property
    def name(self) -> str:
        """Folder and stem."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def honest(self) -> bool:
        """Whether it is a look-alike and no attack."""
        return self.path.parent.name == "honest"

    @property
    def device(self) -> str:
        """The kind of device its backend needs."""
        return BACKENDS[self.header["backend"]].device

    @property
    def family(self) -> str:
        """The letter of the first class it belongs to."""
        return self.listed("class")[0][0]

    def listed(self, key: str) -> list[str]:
        """The alternatives a header names."""
        return re.split(r"[\s|]+", self.header[key]) if key in self.header else []


def read_specimen(path: Path) -> Specimen:
    """Read a file's header: the comment lines it begins with."""
    header: dict[str, str] = {}
    for line in path.read_text().splitlines():
        match = _HEADER.fullmatch(line)
        if match is None:
            break
        header[match[1]] = match[2]
    return Specimen(path, header)


def specimens() -> list[Specimen]:
    """The whole corpus, by name."""
    return [read_specimen(path) for path in sorted(CORPUS.glob("*/*.py"))]


def everyday_specimens() -> list[Specimen]:
    """Choose what `make test` judges: up to two attacks and two honest ones of each class.

    `make test-all` judges all. Those on problems that many others are judged on come first: opening a problem
    takes as long as judging.
    """
    every = specimens()
    sharing = Counter((each.device, each.header["problem"], each.header["shapes"]) for each in every)
    every.sort(key=lambda each: -sharing[each.device, each.header["problem"], each.header["shapes"]])
    met: Counter[tuple[str, str, str]] = Counter()
    chosen = []
    for each in every:
        kind = each.device, each.path.parent.name, each.listed("class")[0]
        met[kind] += 1
        if met[kind] <= _EVERYDAY_OF_A_CLASS:
            chosen.append(each)
    return chosen


def problem_of(specimen: Specimen) -> Problem:
    """The problem that a specimen is judged on: a reference problem, or one of the tests' own."""
    name = f"{specimen.header['problem']}.py"
    return read_problem(next(folder / name for folder in PROBLEMS if (folder / name).is_file()))


def judge(
    evaluator: Evaluator,
    specimen: Specimen,
    *,
    backend: str | None = None,
    tier: SandboxTier | None = None,
) -> Evaluation:
    """Evaluate cheaply: mostly one baseline, few turns, short limits; `backend` replaces the header's."""
    backend = backend or specimen.header["backend"]
    short = "short-limits" in specimen.listed("needs")
    config = EvaluationConfig(
        device=BACKENDS[backend].device,
        shapes=specimen.header.get("shapes"),
        baselines=tuple(specimen.listed("baselines") or ("eager",)),
        target_ms=20.0,
        max_turns=4,
        sandbox=tier,
        limits=Limits(
            call_s=_CALL_S,
            load_s=_SHORT_S if short else _LOAD_S,
            build_s=_SHORT_S if short else _BUILD_S,
            memory_gib=_MEMORY_GIB,
        ),
    )
    problem = problem_of(specimen)
    return evaluator.evaluate(problem, Candidate(source=specimen.path.read_text(), backend=backend), config)


def gained(specimen: Specimen, evaluation: Evaluation) -> bool:
    """Whether an attack that may pass but gain nothing was surely faster than the reference."""
    if specimen.header.get("speedup") != "honest" or evaluation.speedup is None:
        return False
    return evaluation.measurement is not None and evaluation.measurement.interval.low > HARMLESS_BOUND


def judge_fairly(
    evaluator: Evaluator,
    specimen: Specimen,
    *,
    backend: str | None = None,
    tier: SandboxTier | None = None,
) -> Evaluation:
    """Judge, and where an attack looks faster once more: a forged gain comes again, chance does not."""
    evaluation = judge(evaluator, specimen, backend=backend, tier=tier)
    if not gained(specimen, evaluation):
        return evaluation
    return judge(evaluator, specimen, backend=backend, tier=tier)


def promised(specimen: Specimen, evaluation: Evaluation) -> bool:
    """Whether it earned a status its header names."""
    allowed = {Status(name) for name in specimen.listed("status")}
    sanitized = evaluation.sanitization is not None and evaluation.sanitization.ran
    if "sanitizer" in specimen.listed("needs") and not sanitized:
        allowed.add(Status.PASSED)
    return evaluation.status in allowed
