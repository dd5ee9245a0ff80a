"""Threads that parse at once do not disturb each other."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.syntax import parse_python


def test_many_threads_parse_what_one_does() -> None:
    source = Path(__file__).read_text() * 20
    expected = ast.dump(ast.parse(source))
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse_python, [source] * 32))
    assert {ast.dump(tree) for tree in trees} == {expected}


def test_what_does_not_parse_raises_as_ever() -> None:
    with pytest.raises(SyntaxError):
        parse_python("def")
