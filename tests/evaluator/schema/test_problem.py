"""Texts of problems that are refused, and why."""

from __future__ import annotations

import pytest

from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem import problem_from_source

SOURCE = "M = 4\n\n\nclass Model: ...\n\n\ndef get_inputs(): ...\n\n\n"


def test_named_shapes_are_read() -> None:
    problem = problem_from_source(SOURCE + 'SHAPES = {"small": {"M": 2}}', "one")
    assert problem.overrides("small") == {"M": 2}


@pytest.mark.parametrize(
    "shapes",
    [
        '{"small": {[]: 1}}',
        '{"small": {"M": {1, 2}}}',
        '{"small": {"M": 1, 2: 1}}',
        '{1: {"M": 1}}',
        '{"small": 3}',
        '{"small": {"M": M}}',
        "dict()",
        f'{{"small": {{"M": {"-" * 100_000}1}}}}',
    ],
)
def test_shapes_that_are_no_names_of_constants_are_refused(shapes: str) -> None:
    with pytest.raises(ProblemError, match=r"SHAPES must be a literal dictionary|not valid Python"):
        problem_from_source(f"{SOURCE}SHAPES = {shapes}", "one")


def test_shapes_of_constants_that_are_not_there_are_refused() -> None:
    with pytest.raises(ProblemError, match="SHAPES overrides unknown constants: N"):
        problem_from_source(SOURCE + 'SHAPES = {"small": {"N": 2}}', "one")


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ProblemError, match="not valid Python"):
        problem_from_source(f"{SOURCE}X = {'(' * 100_000}", "one")
