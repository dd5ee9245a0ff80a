"""Checks a candidate's text before it runs. Findings are advice, except for violations of the contract."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kernelwright.evaluator.analysis.attribution import kernel_functions
from kernelwright.evaluator.analysis.policy import MAX_FINDINGS, MAX_SOURCE_BYTES, MAX_SOURCE_JSON_BYTES
from kernelwright.evaluator.analysis.sanitizer_words import words_of_module
from kernelwright.evaluator.backends.backend import Backend
from kernelwright.evaluator.backends.registry import find_backend
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.evaluation import Finding
from kernelwright.evaluator.schema.python_syntax import parse_python

_PATTERNS: Final = (
    ("subprocess", re.compile(r"\bsubprocess\b|\bos\.system\b|\bpopen\b"), "starts other programs"),
    ("network", re.compile(r"\bsocket\b|\burllib\b|\brequests\b"), "mentions the network; there is none"),
    ("patching", re.compile(r"\bsetattr\s*\(\s*(torch|time)|^\s*(torch|time)\.[\w.]+\s*=[^=]"), "assigns into a library"),  # noqa: E501
    ("frames", re.compile(r"\b_getframe\b|\bgc\.get_objects\b|\bgc\.get_referrers\b"), "looks at other code's objects"),  # noqa: E501
    ("compiler", re.compile(r"\btorch\.compile\b|\btorch\.jit\b"), "leans on a compiler of torch"),
    ("data_ptr_key", re.compile(r"\[\s*\w+\.data_ptr\(\)\s*\]"), "keeps something under an input's address"),
)  # fmt: skip

_WORDS: Final = re.compile("subprocess|system|popen|socket|urllib|requests|torch|time|_getframe|gc|data_ptr")
"""Every finding's line has one of these words; checked first, because a source may have millions of lines."""


def screen(candidate: Candidate) -> tuple[Finding, ...]:
    """Findings in source order; a fatal one means that the candidate cannot run."""
    source = candidate.source
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return (_fatal("size", None, f"the source is larger than {MAX_SOURCE_BYTES} bytes"),)
    if len(json.dumps(source)) > MAX_SOURCE_JSON_BYTES:
        return (_fatal("size", None, f"the source is larger than {MAX_SOURCE_JSON_BYTES} bytes as JSON"),)
    if not source.strip():
        return (_fatal("empty", None, "the candidate is empty"),)
    try:
        source.encode("utf-8")
        tree = parse_python(source)
    except SyntaxError as error:
        return (_fatal("syntax", error.lineno, f"not valid Python: {error.msg}"),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (_fatal("syntax", None, f"not valid Python: {error}"),)
    if not _defines_model(tree):
        return (_fatal("contract", None, "the module defines no ModelNew at its top level"),)
    try:
        findings = [*islice(_suspicious_lines(source), MAX_FINDINGS)]
        findings += islice(_looking_away(source), MAX_FINDINGS)
        return (*findings, *_without_kernel(tree, find_backend(candidate.backend)))
    except (RecursionError, MemoryError):  # these findings are advice
        return ()


def _defines_model(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name="ModelNew") | ast.FunctionDef(name="ModelNew"):
                return True
            case ast.Name(id="ModelNew", ctx=ast.Store()):
                return True
            case ast.alias(name=name, asname=asname) if (asname or name) == "ModelNew":
                return True
    return False


def _suspicious_lines(source: str) -> Iterator[Finding]:
    for number, line in enumerate(source.splitlines(), 1):
        if line and _WORDS.search(line):
            for rule, expression, message in _PATTERNS:
                if expression.search(line.partition("#")[0]):
                    yield Finding(rule=rule, line=number, message=message)


def _looking_away(source: str) -> Iterator[Finding]:
    for line, word in words_of_module(source):
        message = f"names {word}: a sanitizer's clean report does not count"
        yield Finding(rule="sanitizer", line=line, message=message)


def _without_kernel(tree: ast.Module, backend: Backend) -> Iterator[Finding]:
    if backend.decorators and not any(True for _ in kernel_functions(tree)):
        marks = " or ".join(f"@{mark}" for mark in backend.decorators)
        message = f"no function of the module is marked {marks}: {backend.language} has nothing to compile"
        yield Finding(rule="no_kernel", message=message)


def _fatal(rule: str, line: int | None, message: str) -> Finding:
    return Finding(rule=rule, line=line, message=message, fatal=True)
