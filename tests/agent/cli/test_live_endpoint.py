"""Runs at an endpoint that fails as real ones do: nothing is lost, counted twice or blamed on the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.records.attempt_log import ProviderFailed, RunFinished
from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command, Quick, block, without
from tests.agent.providers.scripted import Script, ScriptedServer, Step, refused

RIGHT = block("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))")


@contextmanager
def served(script: Script) -> Iterator[ScriptedServer]:
    """The scripted endpoint, on an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ScriptedServer(script)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def live(quick: Quick, server: ScriptedServer, *more: str) -> tuple[str, ...]:
    """The quick run's arguments with a live endpoint instead of recordings, and one turn."""
    return (
        *without(quick, "--recordings"),
        "--turns",
        "1",
        "--base-url",
        server.base_url,
        "--model",
        "good-model",
        *more,
    )


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_an_endpoint_in_trouble_is_asked_until_it_answers_once(
    kernelwright: Command, tmp_path: Path, quick: Quick, stream: str
) -> None:
    troubles = (
        refused(429, Retry_After="1"),
        refused(500),
        Step(kind="drop"),
        Step(kind="malformed"),
        Step(text=RIGHT, delay_s=1.0),
    )

    def script(body: dict[str, Any], tries: int) -> Step:
        return troubles[min(tries, len(troubles) - 1)]

    with served(script) as server:
        result = kernelwright("run", *live(quick, server, stream, "--quiet"))
    assert result.exit_code == 0, result.output
    (attempt,) = Workspace(tmp_path).archive().attempts()
    assert attempt.status == "PASSED"
    assert attempt.completion.retries == len(troubles) - 1
    assert (attempt.completion.usage.prompt_tokens, attempt.completion.usage.completion_tokens) == (100, 40)
    assert list(server.answered.values()) == [1]


def test_a_refused_key_scores_nobody_and_a_resume_asks_again(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    with served(lambda body, tries: refused(401, "bad key", code="invalid_api_key")) as server:
        refusal = kernelwright("run", *live(quick, server))
    assert refusal.exit_code == 3
    assert "Traceback" not in refusal.output
    archive = Workspace(tmp_path).archive()
    assert list(archive.attempts()) == []
    kinds = [type(line) for line in archive.lines(archive.find())]
    assert kinds.count(ProviderFailed) == 1
    assert kinds[-1] is RunFinished
    with served(lambda body, tries: Step(text=RIGHT)) as server:
        result = kernelwright("run", "--resume", "last", "--base-url", server.base_url, "--quiet")
    assert result.exit_code == 0, result.output
    assert [attempt.status for attempt in archive.attempts()] == ["PASSED"]


def test_a_rerun_costs_nothing_unless_asked(kernelwright: Command, tmp_path: Path, quick: Quick) -> None:
    prices = tmp_path / "run.toml"
    (tmp_path / "prices.toml").write_text('[[price]]\nmodels = ["good-*"]\ninput = "10"\noutput = "100"\n')
    prices.write_text(f'prices = ["{tmp_path / "prices.toml"}"]\nstrategy = "sample"\n')
    with served(lambda body, tries: Step(text=f"No code, try {tries}.")) as server:
        arguments = without(live(without(quick, "--turns"), server), "--turns")
        arguments += ("--config", str(prices), "--samples", "2", "--quiet")
        first = kernelwright("run", *arguments)
        again = kernelwright("run", *arguments, "--max-cost", "0.001")
        assert sum(server.answered.values()) == 2
        fresh = kernelwright("run", *arguments, "--fresh")
        assert sum(server.answered.values()) == 4
    assert (first.exit_code, again.exit_code, fresh.exit_code) == (1, 1, 1), first.output
    assert "2 replies came from the cache; --fresh asks anew" in again.stdout
    assert "from the cache" not in first.stdout + fresh.stdout
    archive = Workspace(tmp_path).archive()
    runs = [[attempt.completion for attempt in archive.attempts(run)] for run in archive.runs()]
    prices_paid = [sum(line.cost_usd for line in lines) for lines in runs]
    assert prices_paid == [pytest.approx(0.01), 0.0, pytest.approx(0.01)]
    replies = [{line.key.sample: archive.reply(line) for line in lines} for lines in runs]
    assert replies[0] == replies[1] != replies[2]
    assert replies[0][0] != replies[0][1], "samples of one prompt stay apart"
    assert [{line.cached for line in lines} for lines in runs] == [{False}, {True}, {False}]


def test_the_next_endpoint_answers_for_one_that_cannot(
    kernelwright: Command, tmp_path: Path, quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spare(body: dict[str, Any], tries: int) -> Step:
        return Step(text="No code.")

    with served(lambda body, tries: refused(401, "no credit")) as dead, served(spare) as server:
        arguments = live(quick, dead, "--fallback", f"base_url={server.base_url},model=m-2,key_env=OTHER_KEY")
        unset = kernelwright("run", *arguments)
        assert (unset.exit_code, "OTHER_KEY is not set" in unset.stderr) == (2, True)
        monkeypatch.setenv("OTHER_KEY", "sesame")
        result = kernelwright("run", *arguments, "--quiet")
        assert result.exit_code == 1, result.output
        assert [headers["authorization"] for headers in server.headers] == ["Bearer sesame"]
        place = server.base_url.removeprefix("http://").removesuffix("/v1")
    (attempt,) = Workspace(tmp_path).archive().attempts()
    line = attempt.completion
    assert (line.key.model, line.answered_by) == ("good-model", "m-2-01")
    assert line.provider == place
    settings = (tmp_path / "runs").rglob("*")
    assert not any(b"sesame" in path.read_bytes() for path in settings if path.is_file())


def test_a_run_goes_on_with_an_endpoint_it_did_not_begin_with(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    kept = without(quick, "--turns", "--recordings")
    with served(lambda body, tries: refused(401, "no")) as dead, served(lambda body, tries: Step()) as server:
        place = ("--base-url", dead.base_url, "--model", "good-model")
        assert kernelwright("generate", *kept, *place, "--quiet").exit_code == 3
        spare = ("--fallback", f"base_url={server.base_url}")
        result = kernelwright("generate", "--resume", "last", *spare, "--quiet")
    assert result.exit_code == 1, result.output
    assert len(list(Workspace(tmp_path).archive().attempts())) == 1


def test_models_of_one_run_may_have_endpoints_of_their_own(
    kernelwright: Command, tmp_path: Path, quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sesame")
    kept = (*without(quick, "--turns", "--recordings"), "-m", "one", "-m", "two", "--quiet")
    with served(lambda body, tries: Step()) as shared, served(lambda body, tries: Step()) as other:
        own = f'endpoints.two = {{base_url = "{other.base_url}", model = "org/two", key_env = "OTHER_KEY"}}'
        result = kernelwright("generate", *kept, "--base-url", shared.base_url, "--set", own)
        assert result.exit_code == 1, result.output
        asked = [[body["model"] for body in server.requests] for server in (shared, other)]
        assert asked == [["one"], ["org/two"]]
        assert [headers["authorization"] for headers in other.headers] == ["Bearer sesame"]
        alone = kernelwright("generate", *kept[:-5], "-m", "two", "--quiet", "--fresh", "--set", own)
        assert alone.exit_code == 1, alone.output
        unasked = kernelwright("generate", *kept[:-5], "-m", "one", "--set", own)
    assert (unasked.exit_code, "endpoints.two: no such model is asked" in unasked.stderr) == (2, True)
    attempts = Workspace(tmp_path).archive().attempts()
    assert sorted(attempt.key.model for attempt in attempts) == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        ("http://localhost:1/v1", "is not one of base_url=…, model=…, key_env=…"),
        ("model=m", "names no base_url"),
        ("base_url=localhost", "--fallback base_url: must match"),
    ],
)
def test_a_fallback_that_is_none_is_said(
    kernelwright: Command, quick: Quick, fallback: str, said: str
) -> None:
    result = kernelwright(
        "run", *quick, "--base-url", "http://localhost:1", "-m", "m", "--fallback", fallback
    )
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    alone = kernelwright("run", *quick, "--fallback", "base_url=http://localhost:1/v1")
    assert (alone.exit_code, "needs a live endpoint" in alone.stderr) == (2, True)
