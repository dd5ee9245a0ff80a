"""Every attack earns the status its file names, and every honest look-alike passes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import Evaluator, Status
from tests.specimens import (
    Specimen,
    everyday_specimens,
    gained,
    judge_fairly,
    problem_of,
    promised,
    specimens,
)

FAMILIES = frozenset("TCONRMPDSE")
SPECIMENS = specimens()


def _referee(specimen: Specimen) -> tuple[str, ...]:
    """What specimens of the same referee have in common."""
    return tuple(specimen.header.get(key, "") for key in ("problem", "shapes", "baselines", "needs"))


def _parameters() -> list[object]:
    """Specimens by problem, so that a warm referee serves neighbours."""
    everyday = {each.name for each in everyday_specimens()}
    parameters = []
    for each in sorted(SPECIMENS, key=lambda each: (_referee(each), each.name)):
        marks = [pytest.mark.gpu] if each.device == "cuda" else []
        if each.name not in everyday:
            marks.append(pytest.mark.slow)
        parameters.append(pytest.param(each, id=each.name, marks=marks))
    return parameters


@pytest.fixture(scope="session")
def evaluator(shared_cache: Path) -> Iterator[Evaluator]:
    with Evaluator(cache=shared_cache) as shared:
        yield shared


@pytest.mark.parametrize("specimen", _parameters())
def test_candidate_earns_its_status(evaluator: Evaluator, specimen: Specimen) -> None:
    evaluation = judge_fairly(evaluator, specimen)
    assert promised(specimen, evaluation), (
        f"{evaluation.status}: {evaluation.detail}\n{evaluation.traceback}\n{evaluation.output_tail[-2000:]}"
    )
    assert (evaluation.speedup is not None) == (evaluation.status is Status.PASSED)
    assert not gained(specimen, evaluation), evaluation.measurement
    if evaluation.attribution is not None and evaluation.status is Status.PASSED and specimen.listed("track"):
        assert evaluation.attribution.track in {*specimen.listed("track"), "unknown"}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda each: each.name)
def test_header_is_complete(specimen: Specimen) -> None:
    assert {"status", "class", "problem", "shapes", "backend"} <= specimen.header.keys()
    assert all(Status(name) for name in specimen.listed("status"))
    assert all(re.fullmatch(rf"[{''.join(FAMILIES)}]\d+", name) for name in specimen.listed("class"))
    assert problem_of(specimen).overrides(specimen.header["shapes"])
    may_pass = "PASSED" in specimen.listed("status")
    if specimen.honest:
        assert specimen.listed("status") == ["PASSED"]
    elif may_pass and not set(specimen.listed("class")) & {"S6"}:
        assert specimen.header.get("speedup") == "honest", "an attack that may pass must gain nothing"


def test_every_class_is_met_every_day():
    everyday = {(each.path.parent.name, each.listed("class")[0]) for each in everyday_specimens()}
    assert everyday == {(each.path.parent.name, each.listed("class")[0]) for each in SPECIMENS}


def test_corpus_covers_every_family_and_outnumbers_the_promise() -> None:
    folders = Counter(specimen.path.parent.name for specimen in SPECIMENS)
    assert folders["hacks"] >= 60
    assert folders["honest"] >= 25
    for folder in ("hacks", "honest"):
        families = {
            name[0] for each in SPECIMENS if each.path.parent.name == folder for name in each.listed("class")
        }
        assert families == FAMILIES
