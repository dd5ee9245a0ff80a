"""Our own problems keep the contract, run at every named shape, and cannot be answered by a guess."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.evaluator.schema.problem import (Problem, find_problems, read_problem)

FOLDER = Path(__file__).parents[2] / "reference_problems"
PROBLEMS = [read_problem(path) for path in find_problems([FOLDER])]
LARGEST_BYTES = 6 << 30
ROUNDINGS = 1000.0
"""Errors of the coarsest type among inputs, weights and outputs that an output may be apart, relative to its size."""
ALLOWED = dict.fromkeys(
    (
        "attention/document_mask_causal",
        "decode/paged_grouped",
        "decode/ragged_grouped",
        "moe/capacity_grouped_matmul",
        "sampling/speculative_residual",
    ),
    {"reads_part_of_input"},
) | {
    "decode/append_and_attend": {"reads_part_of_input", "mutates_input"},
    "optimizers/adamw_in_place": {"mutates_input", "ignores_input"},  # one counter cannot be put in another order
    "norms/batch_norm_residual_train": {"ignores_parameter"},
}
"""Problems in which one input says which parts of another count, or whose calls change inputs or buffers."""

every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
every_shape = pytest.mark.parametrize("shapes", ["small", "odd"])


def module_constants(problem: Problem) -> dict[str, Any]:
    """Upper-case names assigned at the top of the file, which must be literals; `SHAPES` is not one."""
    return {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(problem.source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper() and target.id != "SHAPES"
    }


def test_there_are_at_least_120_problems_with_unique_names():
    names = [problem.id.rpartition("/")[2] for problem in PROBLEMS]
    assert len(set(names)) == len(names) >= 120


def test_an_id_names_the_family(tmp_path):
    families = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert {problem.id.partition("/")[0] for problem in PROBLEMS} == families


@every_problem
def test_a_problem_says_what_it_is_and_has_only_literal_constants(problem):
    assert ast.get_docstring(ast.parse(problem.source))
    assert module_constants(problem)
    assert "manual_seed" not in problem.source
    assert "cuda" not in problem.source


@every_problem
def test_a_problem_has_a_small_shape_and_an_odd_one(problem):
    assert {"small", "odd"} <= set(problem.shapes)
    flat = torch.utils._pytree.tree_leaves(problem.shapes["odd"])
    assert any(size > 16 and size % 16 for size in flat)


@every_shape
@every_problem
def test_an_answer_is_finite_spread_repeatable_and_depends_on_everything(problem, shapes, load, flaws):
    assert flaws(load(problem, shapes)) - ALLOWED.get(problem.id, set()) == set()


@every_shape
@every_problem
def test_double_precision_agrees_with_single(problem, shapes, load, answer):
    loaded = load(problem, shapes)
    model, inputs = loaded.model(), loaded.inputs()
    single = answer(model, inputs)
    kept = [*single, *(x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)), *model.parameters()]
    error = ROUNDINGS * max(torch.finfo(x.dtype).eps for x in kept if x.is_floating_point())
    double = answer(model.double(), tree_map(lambda x: x.double() if x.is_floating_point() else x, inputs))
    for a, b in zip(single, double, strict=True):
        if b.is_floating_point():
            b = b.double()
            scale = b.square().mean().sqrt().item()
            torch.testing.assert_close(a.double(), b, rtol=error, atol=error * scale)
        else:
            assert torch.equal(a, b)


@every_problem
def test_a_seed_and_a_state_dictionary_both_reproduce_the_weights(problem, load, answer):
    loaded = load(problem, "small")
    torch.manual_seed(5)
    first = loaded.model()
    torch.manual_seed(5)
    second = loaded.model()
    third = loaded.model()
    third.load_state_dict(first.state_dict())
    inputs = loaded.inputs()
    expected = answer(first, inputs)
    for model in (second, third):
        assert all(torch.equal(a, b) for a, b in zip(expected, answer(model, inputs), strict=True))


@every_problem
def test_default_sizes_suit_a_gpu(problem, load, measure):
    size = measure(load(problem))
    assert size.peak_bytes < LARGEST_BYTES
    assert 0.03 < size.estimated_ms < 10.0, size
