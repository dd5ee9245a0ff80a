"""Runs at an endpoint that fails as real ones do: nothing is lost, counted twice or blamed on the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from agent.run import ProviderFailed, RunFinished
from agent.workspace import Workspace
from tests.agent.cli.conftest import block
from tests.agent.providers.scripted import Script, ScriptedServer, Step, refused

Command = Callable[..., Result]

RIGHT = block("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))")


@contextmanager
def served(script: Script) -> Iterator[ScriptedServer]:
    """The scripted endpoint, on an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ScriptedServer(script)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def live(quick: tuple[str, ...], server: ScriptedServer, *more: str) -> tuple[str, ...]:
    """The quick run's arguments with a live endpoint instead of recordings, and one turn."""
    place = quick.index("--recordings")
    kept = quick[:place] + quick[place + 2 :]
    return (*kept, "--turns", "1", "--base-url", server.base_url, "--model", "good-model", *more)


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_an_endpoint_in_trouble_is_asked_until_it_answers_once(
    kernelwright: Command, tmp_path: Path, quick: tuple[str, ...], stream: str
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
    kernelwright: Command, tmp_path: Path, quick: tuple[str, ...]
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
