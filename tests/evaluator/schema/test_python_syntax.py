"""Threads that parse at once do not disturb each other."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelwright.evaluator.schema.python_syntax import parse_python


def test_many_threads_parse_what_one_does() -> None:
    source = Path(__file__).read_text() * 20
    expected = ast.dump(ast.parse(source))
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse_python, [source] * 32))
    assert {ast.dump(tree) for tree in trees} == {expected}


def test_what_does_not_parse_raises_as_ever() -> None:
    with pytest.raises(SyntaxError):
        parse_python("def")


def test_whoever_parses_without_a_turn_disturbs_once(monkeypatch) -> None:
    genuine, calls = ast.parse, []

    def disturbed(source: str) -> ast.Module:
        calls.append(source)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=45, after=23)")
        return genuine(source)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.dump(parse_python("x = 1")) == ast.dump(genuine("x = 1"))
    assert len(calls) == 3
