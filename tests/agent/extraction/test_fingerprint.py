"""Equality of sources, and the difference between two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.extraction.fingerprint import distance, fingerprint

SOURCE = '''
"""A kernel."""
import torch

SRC = """
// adds
#define TILE 32
__global__ void add(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;  /* index */
  if (i < n) b[i] = a[i]++ + 1.0f;
  printf("http://not a comment // really");
}
"""


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + 1  # one more
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// adds", "// adds two numbers"),
        ("  /* index */", ""),
        ("  if (i < n) b[i]", "\n\n      if ( i < n )\n b[i]"),
        ('"""A kernel."""\n', ""),
        ("  # one more", "  # another"),
        ("        return x + 1", "        return (x  +  1)"),
    ],
)
def test_comments_and_layout_do_not_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert fingerprint(SOURCE.replace(old, new)) == fingerprint(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TILE 32", "TILE 64"),
        ("#define TILE 32\n", "#define TILE 32 "),
        ("a[i]++ + 1.0f", "a[i] + ++1.0f"),
        ("http://not a", "http://not  a"),
        ("x + 1", "x - 1"),
        ("i < n", "i <= n"),
    ],
)
def test_what_changes_the_meaning_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert fingerprint(SOURCE.replace(old, new)) != fingerprint(SOURCE)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("if x:\n    y()\nz()", "if x:\n    y()\n    z()"),
        ("a  b\nc", "a b\nc"),
        ("#define F(x) 1\nint f;", "#define F (x) 1\nint f;"),
        ('#include <a>\nauto s = R"(a  b)";', '#include <a>\nauto s = R"(a b)";'),
        ('#include <a>\nauto s = u8"x";', '#include <a>\nauto s = u8 "x";'),
        ("// not C\nfirst", "// nor this\nfirst"),
    ],
)
def test_layout_that_has_a_meaning_counts(text: str, other: str) -> None:
    assert fingerprint(f"SRC = {text!r}") != fingerprint(f"SRC = {other!r}")


def test_parts_of_a_formatted_text_count_as_they_are() -> None:
    source = 'SRC = f"""#include <a>\nprintf("{{x}} // {0}");\n"""\n'
    assert fingerprint(source.format("a  b")) != fingerprint(source.format("a b"))


@given(text=st.text(max_size=300))
def test_any_text_has_a_fingerprint_and_is_no_distance_from_itself(text: str) -> None:
    assert fingerprint(text) == fingerprint(text)
    assert distance(text, text) == 0.0


def test_distance_grows_with_what_differs() -> None:
    near, far = SOURCE.replace("TILE 32", "TILE 64"), "import numpy\nclass ModelNew: pass\n"
    assert 0.0 < distance(SOURCE, near) < distance(SOURCE, far) <= 1.0
    assert distance(near, SOURCE) == distance(SOURCE, near)
