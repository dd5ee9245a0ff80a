"""`kernelwright evaluate`: the record for programs, a card for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from kernelwright.agent.cli.evaluation.evaluation_card import card
from kernelwright.evaluator import Evaluation, guess_backend
from tests.agent.cli.conftest import Command

PLAIN = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x {}\n"
PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(64, 64)]
def get_init_inputs():
    return []
"""


def test_the_record_is_the_only_thing_on_standard_output(kernelwright: Command, tmp_path: Path) -> None:
    Path("plus.py").write_text(PROBLEM)
    Path("good.py").write_text(PLAIN.format("+ 1"))
    cache = ("--cache", str(tmp_path / "cache"))
    good = kernelwright(
        "evaluate", "--problem", "plus.py", "good.py", "--baselines", "eager", "--json", *cache
    )
    evaluation = Evaluation.model_validate_json(good.stdout)
    assert evaluation.problem == "plus"
    assert (good.exit_code == 0) == (evaluation.status == "PASSED")
    assert (evaluation.speedup is None) == (evaluation.status != "PASSED")
    assert evaluation.environment is not None

    bad = kernelwright(
        "evaluate", "-p", "plus.py", "-", "--no-time", "--json", *cache, stdin=PLAIN.format("- 1")
    )
    answer = json.loads(bad.stdout)
    assert (answer["status"], answer["speedup"], bad.exit_code) == ("WRONG_VALUES", None, 1)


def shown(evaluation: Evaluation) -> str:
    """The card as text."""
    console = Console(width=100, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(card(evaluation))
    return capture.get()


def test_the_card_says_why_and_hides_no_control_characters() -> None:
    evaluation = Evaluation.model_validate(
        {
            "status": "COMPILE_ERROR",
            "stage": "build",
            "detail": "main.cpp:3: error: \x1b[31mexpected ';'",
            "problem": "level1/01_x",
            "problem_sha": "p",
            "candidate_sha": "c",
            "backend": "cpp",
            "config": {},
            "builds": [
                {
                    "name": "e",
                    "key": "k",
                    "tier": "full",
                    "cached": False,
                    "seconds": 2.0,
                    "ok": False,
                    "log": "l\x07",
                }
            ],
            "output_tail": "[bold]not markup[/bold]\u202e",
        }
    )
    text = shown(evaluation)
    assert "COMPILE_ERROR" in text
    assert "expected ';'" in text
    assert "[bold]not markup[/bold]" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


@pytest.mark.parametrize(
    ("source", "backend"),
    [
        ("import triton\nimport triton.language as tl\n", "triton"),
        ("import tilelang\n", "tilelang"),
        ("from cutlass import cute\n", "cute"),
        ("m = load_inline(name='m', cuda_sources=s)", "cuda"),
        ("m = load_inline(name='m', cpp_sources=s)", "cpp"),
        ("load(name='m', sources=['a/k.cu'])", "cuda"),
        ("s = 'extern \"C\" __global__ void k() {}'", "cuda"),
        ("import torch\n# faster than triton\n", None),
    ],
)
def test_the_backend_is_guessed_from_the_words_of_the_source(source: str, backend: str | None) -> None:
    assert guess_backend(source) == backend
