"""Settings come from TOML and flags, and survive as TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.budgets import Budget
from agent.cli.failures import Usage
from agent.cli.settings import RunSettings, parse_settings, read_settings, to_toml
from agent.messages import Sampling
from evaluator import EvaluationConfig, Limits


def test_a_flag_beats_the_file_and_tables_merge(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('models = ["a"]\n[evaluation]\nshapes = "small"\n[evaluation.limits]\ntotal_s = 60\n')
    settings = read_settings(file, {"models": ("b",), "evaluation": {"limits": {"memory_gib": 2}}})
    assert settings.models == ("b",)
    assert settings.evaluation.shapes == "small"
    assert settings.evaluation.limits == Limits(total_s=60, memory_gib=2)


def test_settings_survive_being_written_as_toml() -> None:
    settings = RunSettings(
        problems=("level1", 'a "quoted" \\ name\n'),
        models=("x/y:free",),
        licenses={"x/y:free": "MIT"},
        sampling=Sampling(temperature=0.7, extra_body={"reasoning": {"effort": "high"}, "stops": [1, "two"]}),
        options={"turns": 3},
        evaluation=EvaluationConfig(shapes="small", limits=Limits(total_s=60)),
        budget=Budget(seconds=90),
    )
    assert parse_settings(to_toml(settings)) == settings


@given(st.text(st.characters(exclude_categories=("Cs",))), st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_survives_being_written_as_toml(key: str, value: str) -> None:
    settings = RunSettings(problems=(value,), licenses={key: value})
    assert parse_settings(to_toml(settings)) == settings


def test_defaults_are_not_written() -> None:
    assert to_toml(RunSettings()).strip() == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models = [", "not TOML"),
        ('strategy = "guess"', "strategy"),
        ("colour = 1", "colour"),
        ("[evaluation]\ntrials = 0", "evaluation.trials"),
        ("[budget]\ntokens = -1", "budget.tokens"),
    ],
)
def test_wrong_settings_are_one_line_that_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(Usage, match=words) as caught:
        read_settings(file, {})
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"nowhere\.toml"):
        read_settings(tmp_path / "nowhere.toml", {})
