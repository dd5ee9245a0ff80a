"""Nothing that others wrote hides in a text, leaves its line or steers a terminal."""

from __future__ import annotations

import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.cli.terminal.console import line, plain
from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.prompting.foreign_text import stripped
from kernelwright.evaluator import KernelError, one_line, visible

HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
BLANK = "\u034f\u115f\u1160\u2800\u3164\uffa0\ufe00\ufe0f\U000e0100\U000e01ef\u180b\u180f"
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


@pytest.mark.parametrize("write", [visible, one_line, stripped, plain, line, name])
def test_every_letter_without_a_glyph_is_gone_wherever_text_of_others_is_shown(write) -> None:
    unseen = [letter for letter in EVERY if category(letter) in HIDDEN and letter not in "\n\t"]
    for part in (BLANK, *("".join(unseen[start : start + 40]) for start in range(0, len(unseen), 4000))):
        shown = write(f"a{part}b")
        assert not any(category(letter) in HIDDEN - {"Cs"} or letter in BLANK for letter in shown)
        shown.encode()


def test_letters_that_are_seen_stay() -> None:
    said = "naïve 漢字 Ελλάδα ⟨→⟩ 🙂 ∑x²\n\tend"
    assert visible(said) == stripped(said) == said


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert visible(text).isprintable() or set(visible(text)) & set("\n\t") or not text.isprintable()


def test_an_error_of_a_kernel_steers_no_terminal() -> None:
    assert str(KernelError("RuntimeError: \x1b]0;owned\x07")) == "RuntimeError: ⟨U+001B⟩]0;owned⟨U+0007⟩"
