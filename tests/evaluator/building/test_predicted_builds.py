"""Builds predicted from a candidate's text are those that it asks for when it runs."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.extraction.extract import extract
from kernelwright.evaluator.building import policy
from kernelwright.evaluator.building.build_request import BuildRequest, parse_request
from kernelwright.evaluator.building.predicted_builds import predicted_builds, unavoidable_build
from kernelwright.evaluator.contestant import load_inline_shim
from kernelwright.evaluator.ipc.contestant_messages import Built

ROOT = Path(__file__).parents[3]


def _sources() -> list[str]:
    """Candidates of all kinds of writers, whose C++ is built when their module is executed."""
    replies = [path.read_text("utf-8") for path in sorted(ROOT.glob("prompts/recordings/*/c*/*.md"))]
    sources = [extract(reply, finish_reason="stop").code for reply in replies]
    folders = ("prompts/examples/c*.py", "generated/cuda/*/*/kernel.py", "tests/benchmarks/candidates/*.py")
    sources += [path.read_text("utf-8") for folder in folders for path in sorted(ROOT.glob(folder))]
    return [source for source in sources if source and "load_inline" in source]


class _Asked(Exception):
    pass


def _asked(source: str, monkeypatch: pytest.MonkeyPatch) -> BuildRequest | None:
    """The first request that a candidate makes when its module is executed."""
    from torch.utils import cpp_extension

    asked: list[dict[str, Any]] = []

    def ask(request: dict[str, Any]) -> Built:
        asked.append(request)
        raise _Asked

    with monkeypatch.context() as patched:
        for name in ("load_inline", "load", "is_ninja_available", "verify_ninja_availability", "CUDA_HOME"):
            patched.setattr(cpp_extension, name, getattr(cpp_extension, name))
        load_inline_shim.install(ask)
        with suppress(Exception):  # after it was asked, or a package that is not here
            exec(compile(source, "candidate", "exec"), {"__name__": "candidate"})
    return parse_request(json.loads(json.dumps(asked[0]))) if asked else None


def test_most_builds_of_real_candidates_are_predicted_to_the_letter(monkeypatch):
    asked = [(source, request) for source in _sources() if (request := _asked(source, monkeypatch))]
    missed = [source for source, request in asked if request not in predicted_builds(source)]
    assert len(asked) > 50
    assert len(missed) <= len(asked) // 20, missed[0]


def test_the_first_build_of_most_real_candidates_is_unavoidable(monkeypatch):
    sure = [(source, request) for source in _sources() if (request := unavoidable_build(source))]
    assert len(sure) > 50
    wrong = [source for source, request in sure if _asked(source, monkeypatch) != request]
    assert wrong == []


IMPORT = "from torch.utils.cpp_extension import load_inline\n"
CALL = "module = load_inline('a', 'b')"


@pytest.mark.parametrize(
    "before",
    [
        "import os, torch.nn as nn\nfrom math import sqrt",
        "'A doc.'\nNAME = 'a' + 'b'\nclass A(nn.Module):\n    x = 1\n    def f(self, y=2): return g()",
        "def helper():\n    load_inline('b', 'c')",
    ],
)
def test_a_build_after_imports_and_definitions_is_unavoidable(before):
    assert unavoidable_build(f"{before}\n{IMPORT}{CALL}").name == "a"


@pytest.mark.parametrize(
    "source",
    [
        CALL,
        f"{IMPORT}load_inline = 1\n{CALL}",
        f"{IMPORT}def load_inline(*a): return 1\n{CALL}",
        f"{IMPORT}from mine import load_inline\n{CALL}",
        f"{IMPORT}import math as load_inline\n{CALL}",
        f"{IMPORT}from math import sin as load_inline\n{CALL}",
        f"from torch.utils.cpp_extension import load_inline as other\n{CALL}",
        f"{IMPORT}try:\n    {CALL}\nexcept RuntimeError:\n    module = None",
        f"{IMPORT}if True:\n    {CALL}",
        f"{IMPORT}def build():\n    return load_inline('a', 'b')\nmodule = build()",
        f"{IMPORT}class A:\n    {CALL}",
        f"{IMPORT}print('before')\n{CALL}",
        f"{IMPORT}@wrap\ndef f(): pass\n{CALL}",
        f"{IMPORT}def f(x=g()): pass\n{CALL}",
        f"{IMPORT}import numpy\n{CALL}",
        f"{IMPORT}from . import other\n{CALL}",
        f"{IMPORT}raise SystemExit\n{CALL}",
        f"{IMPORT}module = load_inline('a', source())",
        f"{IMPORT}x, y = load_inline('a', 'b'), 1",
        "not python",
    ],
)
def test_a_build_that_may_not_be_asked_for_is_avoidable(source):
    assert unavoidable_build(source) is None


@pytest.mark.parametrize(
    "source",
    [
        "load_inline(name=name(), cpp_sources='')",
        "for code in codes:\n    load_inline('a', code)",
        "code = 'a'\ncode = 'b'\nload_inline('a', code)",
        "load_inline('a', 'b', **options)",
        "load_inline('a', 'b', extra_include_paths=['/tmp'])",
        "load_inline('a', 'b', unknown=1)",
        "code = code\nload_inline('a', code)",
        "load_inline(name=1, cpp_sources='')",
        "not python",
        "load_inline(",
    ],
)
def test_what_only_running_shows_is_not_predicted(source):
    assert predicted_builds(source) == []


def test_sums_of_sums_end_soon():
    lines = ["a0 = 'x' * 1", "a1 = 'y'", *(f"a{n + 1} = a{n} + a{n}" for n in range(1, 80))]
    assert predicted_builds("\n".join([*lines, "load_inline('a', a80)"])) == []
    lists = ["a1 = ['y']", *(f"a{n + 1} = a{n} + a{n}" for n in range(1, 80))]
    assert predicted_builds("\n".join([*lists, "load_inline('a', a80)"])) == []


def test_so_many_builds_are_predicted_at_most():
    source = "\n".join(f"load_inline('a{n}', 'code')" for n in range(20))
    assert [request.name for request in predicted_builds(source)] == ["a0", "a1", "a2", "a3"]
    assert policy.MAX_PREDICTED_BUILDS == 4
