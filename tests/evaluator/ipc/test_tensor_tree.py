import dataclasses
import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.evaluator.ipc.tensor_tree import (
    UnsupportedValue,
    flatten,
    leaf_paths,
    same_structure,
    unflatten,
)

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


@dataclasses.dataclass
class Size:
    width: int
    heads: int

    @property
    def head(self):
        return self.width // self.heads


def test_dataclasses_cross_as_namespaces_of_fields_and_properties():
    tree, leaves = flatten({"config": Size(64, 8), "more": SimpleNamespace(scale=torch.ones(2), name="x")})
    rebuilt = unflatten(json.loads(json.dumps(tree)), leaves.__getitem__)
    assert rebuilt["config"] == SimpleNamespace(width=64, heads=8, head=8)
    assert (rebuilt["more"].scale is leaves[0], rebuilt["more"].name) == (True, "x")


def test_dataclasses_are_returned_alike_where_their_fields_are():
    one, other = (
        flatten(value, numbers_as_tensors=True)[0]
        for value in (Size(4, 2), SimpleNamespace(heads=2, width=4))
    )
    assert same_structure(one, other)
    assert leaf_paths(one) == ["['heads']", "['width']"]
    assert not same_structure(one, flatten({"heads": 2, "width": 4}, numbers_as_tensors=True)[0])


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
