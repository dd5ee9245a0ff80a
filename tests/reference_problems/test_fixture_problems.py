"""The folders of flawed and unusual problems are what they claim to be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kernelwright.evaluator.schema.problem import (Problem, find_problems, read_problem)

FOLDER = Path(__file__).parents[1] / "problems"
FLAWED = [read_problem(path) for path in find_problems([FOLDER / "flawed"])]
UNUSUAL = [read_problem(path) for path in find_problems([FOLDER / "unusual"])]
BY_SIZE = {"too_big", "too_slow"}
"""Never run, only measured from shapes."""
BY_REASONING = {"fixed_work", "redundant_computation"}
"""No answer gives it away."""


def planted(problem: Problem) -> str:
    """The flaw named by the file's first line."""
    found = re.match(r"# flaw: ([a-z_]+)\n", problem.source)
    assert found, f"{problem.id} does not name its flaw"
    return found[1]


RUN = [problem for problem in FLAWED if planted(problem) not in BY_SIZE | BY_REASONING]
MEASURED = [problem for problem in FLAWED if planted(problem) in BY_SIZE]


def test_there_are_many_kinds_of_flaws_and_of_unusual_problems():
    assert len({planted(problem) for problem in FLAWED}) >= 14
    assert len(UNUSUAL) >= 10


@pytest.mark.parametrize("problem", RUN, ids=lambda problem: problem.id)
def test_a_planted_flaw_shows_when_the_problem_runs(problem, load, flaws):
    assert planted(problem) in flaws(load(problem, "small" if problem.shapes else None))


@pytest.mark.parametrize("problem", MEASURED, ids=lambda problem: problem.id)
def test_a_planted_size_shows_without_running(problem, load, measure):
    size = measure(load(problem))
    if planted(problem) == "too_big":
        assert size.peak_bytes > 1 << 40
    else:
        assert size.estimated_ms > 60_000


@pytest.mark.parametrize("problem", UNUSUAL, ids=lambda problem: problem.id)
def test_an_unusual_problem_runs_and_answers_finite_numbers(problem, load, answer):
    loaded = load(problem)
    outputs = answer(loaded.model(), loaded.inputs())
    assert outputs
    for output in outputs:
        assert output.numel() > 0
        # Torch cannot say of eight bits whether they are finite.
        assert torch.isfinite(output.float() if output.element_size() == 1 else output).all()
