"""Thousands of mangled replies: extraction never raises, never hangs, and what it returns is a module."""

from __future__ import annotations

import ast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.agent.extraction.extract import ExtractionOutcome, Rule, extract
from kernelwright.agent.extraction.policy import LONGEST_TEXT

MODULES = (
    "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n",
    'src = r"""\n__global__ void f() {}\n"""\nclass ModelNew:\n    """Doc\n```\nx\n```\n"""\n',
    "class ModelNew(nn.Module):\n    ...\n",
    "class ModelNew(:\n",
    "x = '''\n",
    "def f():\n    return 1\n",
    "__global__ void k(float* x) { x[0] = 1; }\n",
    '{"code": "class ModelNew:\\n    pass\\n"}',
)
PIECES = (
    *MODULES,
    "```",
    "```python",
    "```cuda",
    "````",
    "~~~",
    "~~~python",
    "   ```python",
    "> ```",
    "1. ```py",
    "<think>",
    "</think>",
    "<thinking>",
    "</reasoning>",
    "`</think>`",
    '"""',
    "'''",
    "'",
    "\\",
    "Here is the code:",
    "Then we should apply",
    "import torch",
    "class ModelNew",
    "# Problem: 3\n# Model: m",
    "\0",
    "\ud800",
    "\ufeff",
    "é漢🙂",
    "\r",
    "\x0c",
    "\t",
    "    ",
    "",
)
FINISHES = (None, "stop", "length", "content_filter", "unknown", "eos", "")

replies = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=14).flatmap(
    lambda pieces: st.sampled_from(("\n", "\r\n", " ", "\n\n")).map(lambda between: between.join(pieces))
)


def check(text: str, finish_reason: str | None, reasoning: str = "") -> None:
    extraction = extract(text, finish_reason=finish_reason, reasoning=reasoning)
    assert isinstance(extraction.rule, Rule)
    if extraction.outcome is not ExtractionOutcome.CODE:
        assert not extraction.code
        return
    extraction.code.encode("utf-8")
    names = {node.name for node in ast.walk(ast.parse(extraction.code)) if isinstance(node, ast.ClassDef)}
    assert "ModelNew" in names


@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=replies, finish_reason=st.sampled_from(FINISHES), data=st.data())
def test_mangled_replies_are_survived(text: str, finish_reason: str | None, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    check(text[begin:end], finish_reason, reasoning=text[:begin])


@settings(max_examples=500, deadline=None)
@given(text=st.text(max_size=400), finish_reason=st.sampled_from(FINISHES))
def test_any_text_is_survived(text: str, finish_reason: str | None) -> None:
    check(text, finish_reason)


def test_a_reply_cut_anywhere_is_survived() -> None:
    reply = "<think>\n" + "\n".join(f"```python\n{module}```" for module in MODULES) + "\n</think>\n"
    reply += "".join(f"```python\n{module}```\n" for module in reversed(MODULES))
    for end in range(len(reply)):
        check(reply[:end], "length")
        check(reply[:end], None)


@pytest.mark.parametrize(
    "text",
    [
        "x" * (1 << 20),
        " " * (1 << 20),
        "`" * (1 << 20),
        "\n" * (1 << 20),
        "```python\n" * 100_000,
        "```python\n'''\n```\n" * 50_000,
        "```python\nclass ModelNew:\n    x = '''\n```\n" * 25_000,
        "```python\nclass ModelNew(\n```\n" * 30_000,
        "<think>\n" * 100_000,
        "</think>\n" * 100_000,
        "import torch\n\n" * 60_000 + "class ModelNew",
        "import torch\nsome words\n" * 30_000 + "class ModelNew:\n    pass\n+",
        "class ModelNew:\n    pass\n" * 30_000,
        "[" * 300_000 + "]" * 300_000,
        "[" + "{}," * 200_000 + "{}]",
        "```python\nclass ModelNew:\n    pass\nx = " + "-" * 500_000 + "1\n```",
        "```python\nclass ModelNew:\n    pass\nx = a" + ".b" * 250_000 + "\n```",
        "'\"" * 400_000,
        "```\n" + '"\\"' * 300_000,
        "> " * 400_000,
        "~" * 3 + "\\" * (1 << 20),
    ],
    ids=lambda text: repr(text[:24]),
)
def test_a_megabyte_is_read_in_time(text: str) -> None:
    check(text, None)


def test_a_megabyte_around_one_module_does_not_hide_it() -> None:
    noise = "Let me think about tiles and warps. It's a long story.\n" * 20_000
    module = MODULES[0]
    extraction = extract(f"{noise}</think>\n```python\n{module}```\n{noise}", finish_reason="stop")
    assert extraction.code == module
    large = module + "".join(f"x{index} = '{index:060}'\n" for index in range(10_000))
    assert extract(f"```python\n{large}```", finish_reason="stop").code == large


def test_only_the_end_of_an_absurdly_long_reply_is_read() -> None:
    extraction = extract("x" * LONGEST_TEXT + f"\n```python\n{MODULES[0]}```", finish_reason="stop")
    assert extraction.code == MODULES[0]
    assert "only the last" in extraction.notes[0]
