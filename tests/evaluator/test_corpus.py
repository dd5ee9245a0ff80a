"""Every attack earns the status its file names, and every honest look-alike passes.

A file of `tests/corpus/` is a whole candidate under a header of `# key: value` comments:

- `status`: what it must earn, alternatives separated by `|`
- `speedup: honest`: it may pass, but gains nothing; a forged gain would be enormous, so the bound is wide
- `class`: ids of `EXPLOITS`, the catalogue of exploit classes; for honest files, the classes it resembles
- `problem`, `shapes`, `backend`: what it is judged on
- `track`: whose work it may be credited as, where that was found out
- `needs: sanitizer`: passes where none ran
- `needs: build-limit`: its build is stopped early
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from evaluator import (
    BACKENDS,
    Candidate,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    Limits,
    Status,
    read_problem,
)

CORPUS = Path(__file__).parents[1] / "corpus"
PROBLEMS = Path(__file__).parents[2] / "reference_problems"
FAMILIES = frozenset("TCONRMPDS")
GENEROUS_BOUND = 3.0
CALL_S, LOAD_S, BUILD_S, SHORT_BUILD_S = 5.0, 20.0, 300.0, 15.0
MEMORY_GIB = 4.0
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


def _parameters() -> list[object]:
    """Specimens in the order of their problems, so that a warm referee serves neighbours."""
    specimens = sorted(
        map(read_specimen, CORPUS.glob("*/*.py")), key=lambda each: (each.header["problem"], each.name)
    )
    return [
        pytest.param(
            each,
            id=each.name,
            marks=pytest.mark.gpu if BACKENDS[each.header["backend"]].device == "cuda" else (),
        )
        for each in specimens
    ]


SPECIMENS = [read_specimen(path) for path in sorted(CORPUS.glob("*/*.py"))]


@pytest.fixture(scope="session")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    with Evaluator(cache=tmp_path_factory.mktemp("corpus-cache")) as shared:
        yield shared


def judge(evaluator: Evaluator, specimen: Specimen) -> Evaluation:
    """Evaluate cheaply: one baseline, few turns, short limits."""
    short = "build-limit" in specimen.listed("needs")
    config = EvaluationConfig(
        device=BACKENDS[specimen.header["backend"]].device,
        shapes=specimen.header.get("shapes"),
        baselines=("eager",),
        target_ms=20.0,
        max_turns=6,
        limits=Limits(
            call_s=CALL_S, load_s=LOAD_S, build_s=SHORT_BUILD_S if short else BUILD_S, memory_gib=MEMORY_GIB
        ),
    )
    problem = read_problem(PROBLEMS / f"{specimen.header['problem']}.py")
    candidate = Candidate(source=specimen.path.read_text(), backend=specimen.header["backend"])
    return evaluator.evaluate(problem, candidate, config)


@pytest.mark.parametrize("specimen", _parameters())
def test_candidate_earns_its_status(evaluator: Evaluator, specimen: Specimen) -> None:
    evaluation = judge(evaluator, specimen)
    allowed = {Status(name) for name in specimen.listed("status")}
    sanitized = evaluation.sanitization is not None and evaluation.sanitization.ran
    if "sanitizer" in specimen.listed("needs") and not sanitized:
        allowed.add(Status.PASSED)
    assert evaluation.status in allowed, (
        f"{evaluation.detail}\n{evaluation.traceback}\n{evaluation.output_tail[-2000:]}"
    )
    assert (evaluation.speedup is not None) == (evaluation.status is Status.PASSED)
    if specimen.header.get("speedup") == "honest" and evaluation.speedup is not None:
        assert evaluation.measurement is not None
        assert evaluation.measurement.interval.low < GENEROUS_BOUND, evaluation.measurement
    if evaluation.attribution is not None and evaluation.status is Status.PASSED and specimen.listed("track"):
        assert evaluation.attribution.track in {*specimen.listed("track"), "unknown"}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda each: each.name)
def test_header_is_complete(specimen: Specimen) -> None:
    assert {"status", "class", "problem", "shapes", "backend"} <= specimen.header.keys()
    assert all(Status(name) for name in specimen.listed("status"))
    assert all(re.fullmatch(rf"[{''.join(FAMILIES)}]\d+", name) for name in specimen.listed("class"))
    problem = read_problem(PROBLEMS / f"{specimen.header['problem']}.py")
    assert problem.overrides(specimen.header["shapes"])
    may_pass = "PASSED" in specimen.listed("status")
    if specimen.path.parent.name == "honest":
        assert specimen.listed("status") == ["PASSED"]
    elif may_pass and not set(specimen.listed("class")) & {"S6"}:
        assert specimen.header.get("speedup") == "honest", "an attack that may pass must gain nothing"


def test_corpus_covers_every_family_and_outnumbers_the_promise() -> None:
    folders = Counter(specimen.path.parent.name for specimen in SPECIMENS)
    assert folders["hacks"] >= 60
    assert folders["honest"] >= 25
    for folder in ("hacks", "honest"):
        families = {
            name[0] for each in SPECIMENS if each.path.parent.name == folder for name in each.listed("class")
        }
        assert families == FAMILIES
