"""Settings come from TOML and flags, and survive as TOML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling
from kernelwright.agent.setup.preparation import counting
from kernelwright.agent.setup.run_settings import (
    RunSettings,
    parse_assignments,
    parse_settings,
    read_settings,
    to_toml,
)
from kernelwright.agent.setup.settings_toml import explained
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.strategies.refine import Refine
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import EvaluationConfig, Limits


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
        ('base_url = "https://me:secret@host/v1"', "base_url: .*KERNELWRIGHT_API_KEY"),
        ('fallbacks = [{base_url = "https://secret@host/v1"}]', "fallbacks.0.base_url: .*key_env"),
    ],
)
def test_wrong_settings_are_one_line_that_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read_settings(file, {})
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml"):
        read_settings(tmp_path / "nowhere.toml", {})


def test_single_settings_merge_like_lines_of_one_file() -> None:
    given = parse_assignments(["sampling.top_p=0.9", 'sampling.stop = ["a"]', "options.generations = 8"])
    assert given == {"sampling": {"top_p": 0.9, "stop": ["a"]}, "options": {"generations": 8}}


@pytest.mark.parametrize("word", ["letters", "../a-b/c.d", "~/letters", "http://host:1/v1"])
def test_a_word_needs_no_quotes(word: str) -> None:
    assert parse_assignments([f"provider_options.folder={word}"]) == {"provider_options": {"folder": word}}


@pytest.mark.parametrize("text", ["folder", "folder=", "folder=a b", "folder=[a", "a b=c"])
def test_what_is_neither_toml_nor_a_word_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME = VALUE in TOML"):
        parse_assignments([text])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {
            "models": ("a/b",),
            "licenses": {"a/b": "MIT"},
            "options": {"turns": 3},
            "fallbacks": [{"base_url": "http://h/v1", "model": "m"}],
            "sampling": {"top_p": 0.9, "extra_body": {"reasoning": {"effort": "high"}}},
            "evaluation": {"math": "tf32", "limits": {"total_s": 60}},
            "budget": {"cost_usd": 1.5},
        },
    ],
)
def test_settings_that_explain_themselves_read_back_as_the_same(given: dict[str, object]) -> None:
    settings = read_settings(None, given)
    text = explained(settings)
    assert parse_settings(text) == settings
    places = ("requests_per_minute", "population", "[problem_budget]", "extra_body", "licenses", "prices")
    assert [place for place in places if place not in text] == []


def test_every_setting_can_be_uncommented() -> None:
    text = re.sub(r"^# (?=\w+ = )", "", explained(RunSettings()), flags=re.MULTILINE)
    assert parse_settings(text) == RunSettings()
    assert "\nrequests_per_minute" not in text
    assert '\nstrategy = "refine"\n' in text


@pytest.mark.parametrize(
    ("decided", "backend", "strategy", "read"),
    [
        (None, "cuda", Refine(), True),
        (None, "triton", Refine(), True),
        (None, "cpp", Refine(), None),
        (None, "cuda", Sample(), None),
        (False, "cuda", Refine(), False),
        (True, "cuda", Sample(), True),
    ],
)
def test_counters_are_read_where_a_next_turn_is_told_of_them(
    decided: bool | None, backend: str, strategy: Refine | Sample, read: bool | None
) -> None:
    assert counting(EvaluationConfig(counters=decided), (backend,), (strategy,)).counters is read
