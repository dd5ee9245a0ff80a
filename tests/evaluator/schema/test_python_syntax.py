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


@pytest.mark.parametrize(
    "line", ["# coding: raw_unicode_escape", "# -*- coding: utf-7 -*-", "\f#vim:fileencoding=latin-1"]
)
@pytest.mark.parametrize("before", ["", "#!/usr/bin/env python\n"])
def test_python_would_decode_another_text_than_readers_see(line: str, before: str) -> None:
    with pytest.raises(SyntaxError, match="declares the encoding"):
        parse_python(f"{before}{line}\nx = 0  # \\u000ax = 1\n")


def test_utf_8_may_be_declared_and_a_later_comment_declares_nothing() -> None:
    parse_python("# -*- coding: utf-8 -*-\nx = 1\n")
    parse_python("x = 1\ny = 2\n# coding: utf-7\n")
