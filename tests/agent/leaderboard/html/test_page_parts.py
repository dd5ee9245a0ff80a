"""Colours, packing and curves: the small parts of a page."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.leaderboard.display_text import name
from kernelwright.agent.leaderboard.html.attempt_documents import facts, json_value, text_value
from kernelwright.agent.leaderboard.html.page_content import Packer
from kernelwright.agent.leaderboard.html.standings_table import HEIGHT, LEFT, curve
from kernelwright.agent.leaderboard.html.syntax_colours import runs
from kernelwright.agent.leaderboard.statistics import fast_p
from kernelwright.agent.records.score_policy import policy_of
from kernelwright.evaluator import EvaluationConfig, Passes, visible
from tests.agent.leaderboard.html.payload import unpack

if TYPE_CHECKING:
    from tests.agent.conftest import Make

ROOT = Path(__file__).parents[4]
ALPHABET = st.text(st.sampled_from("ab0.'\"\\\n#/*@_ {}\U0001f600é<>"), max_size=200)


def stretches(source: str) -> list[tuple[str, str]]:
    units = source.encode("utf-16-le")
    found, begin = [], 0
    for letter, length in re.findall(r"([a-z_])(\d+)", runs(source)):
        end = begin + 2 * int(length)
        found.append((letter, units[begin:end].decode("utf-16-le")))
        begin = end
    assert begin == len(units)
    return found


@given(source=ALPHABET)
def test_colours_cover_every_text_exactly(source: str) -> None:
    assert "".join(text for _, text in stretches(source)) == source


def test_colours_cover_our_own_sources() -> None:
    for file in sorted((ROOT / "agent" / "leaderboard").glob("*.py"))[:6]:
        source = file.read_text("utf-8")
        assert "".join(text for _, text in stretches(source)) == source


def test_python_and_the_cpp_inside_it_are_coloured() -> None:
    found = stretches(
        'import torch  # why\nsource = r"""\n#include <a>\nconst int x = 0x1fu; // c\n"""\n'
        '@dec\ndef f(): return "s"\n'
    )
    for expected in [("k", "import"), ("t", "torch"), ("c", "# why"), ("d", "#include"), ("k", "const")]:
        assert expected in found
    for expected in [("n", "0x1fu"), ("c", "// c\n"), ("d", "@dec"), ("k", "def"), ("s", '"s"')]:
        assert expected in found


@pytest.mark.parametrize(
    "source", ["'" * 100_000, '"""' * 50_000, "\\" * 150_000, "/*" * 70_000, "1e" * 70_000]
)
def test_hostile_sources_have_bounded_time(source: str) -> None:
    assert runs(source) == ""
    lines = "\n".join(source[start : start + 1900] for start in range(0, 60_000, 1900))
    began = time.monotonic()
    assert sum(len(text) for _, text in stretches(lines)) == len(lines)
    assert time.monotonic() - began < 20


@given(values=st.lists(st.text(max_size=300), max_size=20), limit=st.integers(64, 3000))
def test_what_is_packed_comes_back_within_the_limit(values: list[str], limit: int) -> None:
    packer = Packer(limit)
    taken = {key: value for key, value in enumerate(values) if packer.add(key, value)}
    left_out = set(packer.left_out)
    text = packer.text()
    assert len(text) <= limit
    assert unpack(text) == taken
    assert left_out == set(range(len(values))) - set(taken)


@given(speedups=st.lists(st.floats(0.05, 8), max_size=30), failures=st.integers(0, 10), p=st.floats(0, 4.9))
def test_the_curve_is_fast_p(speedups: list[float], failures: int, p: float) -> None:
    problems = len(speedups) + failures
    if problems == 0:
        return
    path = curve(sorted(speedups, reverse=True), problems, 5.0)
    start, *steps = re.findall(r"[MH]([\d.]+)(?:[V ]([\d.]+))?", path)
    width = float(steps[-1][0]) - LEFT
    height = float(start[1])
    for across, up in steps[:-1]:
        if float(across) <= LEFT + width * p / 5.0:
            height = float(up)
    bottom, top = HEIGHT - 34, 12
    share = (bottom - height) / (bottom - top)
    # A step may be drawn up to half a unit away from where it is.
    near = [fast_p([*speedups, *[None] * failures], p + offset) for offset in (-0.006, 0.0, 0.006)]
    assert min(near) - 0.01 <= share <= max(near) + 0.01


def test_names_and_texts_show_what_hides() -> None:
    assert visible("a\u202eb\x1b\ud800\tc\r\nd\u2028") == "a⟨U+202E⟩b⟨U+001B⟩⟨U+D800⟩\tc\nd⟨U+2028⟩"
    assert name("a\nb" + "x" * 500) == "a b" + "x" * 156 + "…"


def test_long_texts_are_cut_and_say_so() -> None:
    value = text_value("x" * 100_000)
    assert (len(str(value["text"])), value["of"]) == (65_536, 100_000)
    assert "of" not in text_value("x")


def test_a_score_log_has_its_numbers_on_one_line() -> None:
    text = json_value('{"turn_ms": [1.5, 2e-3, 3], "notes": ["a", "b"]}')["text"]
    assert '"turn_ms": [1.5, 0.002, 3]' in str(text)


def test_the_policy_of_a_kernel_names_gradients(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        attempt = make.attempt(log)
    for passes in Passes:
        evaluation = make.evaluation(config=EvaluationConfig(passes=passes))
        told = dict(facts(evaluation, attempt))["policy"]
        assert ("with gradients" in told) is (passes is Passes.FORWARD_BACKWARD)
        assert told == f"{policy_of(evaluation).id}: {policy_of(evaluation).terms}"
