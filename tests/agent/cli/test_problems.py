"""Listing and showing problems."""

from __future__ import annotations

import json

from tests.agent.cli.conftest import Command


def test_problems_are_listed_with_their_shapes(kernelwright: Command) -> None:
    result = kernelwright("problems", "list")
    assert result.exit_code == 0
    assert "level1/01_square_matmul" in result.stdout
    assert "small" in result.stdout


def test_the_list_is_json_on_request(kernelwright: Command) -> None:
    listed = json.loads(kernelwright("problems", "list", "level2", "--json").stdout)
    assert all(entry["id"].startswith("level2/") and entry["about"] for entry in listed)


def test_a_problem_is_shown_as_it_is_written(kernelwright: Command) -> None:
    result = kernelwright("problems", "show", "square_matmul")
    shown = json.loads(kernelwright("problems", "show", "square_matmul", "--json").stdout)
    assert result.stdout == shown["source"]
    assert "class Model" in result.stdout
