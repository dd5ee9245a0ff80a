"""A run that somebody else began sends no key to an address that only its settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.setup.preparation import RunPlace, prepare
from kernelwright.agent.setup.run_settings import EndpointChoice, RunSettings
from kernelwright.agent.setup.usage_error import UsageError

ELSEWHERE = "https://models.example/v1"
ASKED = RunSettings(
    problems=("level1/23_swish",), backends=("cpp",), models=("some-model",), provider="openai"
)


@pytest.fixture(autouse=True)
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", "a-key")
    monkeypatch.setenv("OTHER_KEY", "another")
    monkeypatch.delenv("KERNELWRIGHT_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def begun(folder: Path, **settings: object) -> RunPlace:
    """A run of another user, seen by one whose cache is a new one."""
    theirs = RunPlace(folder / "work", folder / "theirs")
    prepare(theirs, ASKED.model_copy(update=settings)).open_log().close()
    prepare(theirs, RunSettings(), resume="last")
    return RunPlace(folder / "work", folder / "ours")


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"base_url": ELSEWHERE}, "--base-url"),
        ({"fallbacks": (EndpointChoice(base_url=ELSEWHERE, key_env="OTHER_KEY"),)}, "--fallback"),
        (
            {"endpoints": {"some-model": EndpointChoice(base_url=ELSEWHERE, key_env="OTHER_KEY")}},
            "--set endpoints",
        ),
    ],
    ids=["base URL", "fallback", "endpoint"],
)
def test_an_address_that_a_key_would_go_to_is_given_anew(
    tmp_path: Path, settings: dict[str, object], option: str
) -> None:
    ours = begun(tmp_path, **settings)
    with pytest.raises(UsageError, match=f"a key sent to {ELSEWHERE}; if that is right, give {option}"):
        prepare(ours, RunSettings(), resume="last")
    prepare(ours, RunSettings.model_validate(settings), resume="last")


def test_judges_get_no_token_by_the_word_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = begun(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_JUDGE_TOKEN", "a-token")
    stored = RunSettings(judges=("https://judge.example",))
    monkeypatch.setattr(
        "kernelwright.agent.setup.preparation.parse_settings",
        lambda text: ASKED.model_copy(update=dict(stored)),
    )
    with pytest.raises(UsageError, match=r"https://judge\.example; if that is right, give --judge"):
        prepare(ours, RunSettings(), resume="last")


@pytest.mark.parametrize("address", ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1"])
def test_this_machine_may_have_it(tmp_path: Path, address: str) -> None:
    prepare(begun(tmp_path, base_url=address), RunSettings(), resume="last")


def test_without_a_key_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = begun(tmp_path, base_url=ELSEWHERE)
    monkeypatch.delenv("KERNELWRIGHT_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    prepare(ours, RunSettings(), resume="last")
