import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluator.contestant.trees import UnsupportedValue, flatten, leaf_paths, same_structure, unflatten

atoms = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values)
def test_any_value_survives_the_crossing(value):
    tree, leaves = flatten([value, torch.ones(2)])
    crossed = json.loads(json.dumps(tree))
    rebuilt = unflatten(crossed, leaves.__getitem__)
    assert rebuilt[0] == value
    assert rebuilt[1] is leaves[0]


@pytest.mark.parametrize(
    "value", [torch.float16, torch.device("cpu"), slice(1, None, 2), 1 + 2j, math.inf, -0.0]
)
def test_torch_and_number_oddities_cross(value):
    tree, _ = flatten(value)
    assert unflatten(json.loads(json.dumps(tree)), lambda leaf: None) == value


def test_objects_do_not_cross():
    with pytest.raises(UnsupportedValue):
        flatten([object()])


def test_lists_and_tuples_nest_alike_but_a_bare_tensor_does_not():
    one = torch.ones(1)
    assert same_structure(flatten([one, one])[0], flatten((one, one))[0])
    assert not same_structure(flatten([one])[0], flatten(one)[0])
    assert not same_structure(flatten({"a": one})[0], flatten({"b": one})[0])


def test_paths_name_where_each_tensor_sits():
    one = torch.ones(1)
    tree, _ = flatten({"logits": one, "more": (one, [one])})
    assert leaf_paths(tree) == ["['logits']", "['more'][0]", "['more'][1][0]"]
