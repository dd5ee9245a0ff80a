"""Recordings on disk, the server that answers from them, and the provider that makes them."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.provider_kind import ClientTerms
from kernelwright.agent.providers.replay.recordings import (
    Recording,
    RecordingProvider,
    find_recording,
    format_recording,
    parse_recording,
    read_recording,
    recorded_problems,
    recording_path,
    write_recording,
)
from kernelwright.agent.providers.replay.replay_server import MODEL, ReplayServer
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message, ProviderError
from kernelwright.agent.records.tokens import estimate_tokens

texts = st.text(max_size=60)
labels = st.text(alphabet="abcdefgh-._0123456789", min_size=1, max_size=12)


@settings(max_examples=300)
@given(text=texts, reasoning=texts, label=labels)
def test_a_recording_survives_its_file_format(text: str, reasoning: str, label: str) -> None:
    recording = Recording(text=text, reasoning=reasoning, finish_reason="length", label=label)
    assert parse_recording(format_recording(recording)) == recording


def test_a_file_without_a_head_is_the_reply() -> None:
    for content in ("hello\n", "", "---\nno head\n", "---\n\nfree text\n---\n", "--- a: b ---"):
        assert parse_recording(content) == Recording(text=content)


def test_a_head_as_people_write_it() -> None:
    content = (
        "---\nlabel: handwritten\nfinish_reason: length\nreasoning: |\n  one\n\n  two\n---\nthe reply\n---\n"
    )
    assert parse_recording(content) == Recording("the reply\n---\n", "one\n\ntwo", "length", "handwritten")
    assert parse_recording("---\nreasoning: short\n---\nx").reasoning == "short"
    assert parse_recording("---\n---\nx").text == "x"


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "01_matmul/cpp/00.md", "---\nlabel: handwritten\nreasoning: thinking\n---\nfirst")
    write(tmp_path, "01_matmul/cpp/01.md", "second")
    write(tmp_path, "01_matmul/cpp/sample-1/00.md", "other sample")
    write(tmp_path, "01_matmul/cuda/sample-3/00.md", "cuda")
    write(tmp_path, "level2/01_matmul/cpp/00.md", "of level 2")
    write(tmp_path, "02_cut/cpp/00.md", "---\nfinish_reason: length\nlabel: deepseek-x\n---\nhal")
    write(tmp_path, "README.md", "not a recording")
    return tmp_path


@pytest.mark.parametrize(
    ("problem", "backend", "sample", "turn", "found"),
    [
        ("01_matmul", "cpp", 0, 0, "01_matmul/cpp/00.md"),
        ("level1/01_matmul", "cpp", 0, 1, "01_matmul/cpp/01.md"),
        ("level1/01_matmul", "cpp", 0, 7, "01_matmul/cpp/01.md"),
        ("level1/01_matmul", "cpp", 1, 0, "01_matmul/cpp/sample-1/00.md"),
        ("level1/01_matmul", "cpp", 2, 0, "01_matmul/cpp/00.md"),
        ("level1/01_matmul", "cuda", 0, 3, "01_matmul/cuda/sample-3/00.md"),
        ("level2/01_matmul", "cpp", 0, 0, "level2/01_matmul/cpp/00.md"),
        ("level1/01_matmul", "triton", 0, 0, None),
        ("03_unknown", "cpp", 0, 0, None),
        ("../..", "cpp", 0, 0, None),
        ("", "", 0, 0, None),
    ],
)
def test_recordings_are_found(
    folder: Path, problem: str, backend: str, sample: int, turn: int, found: str | None
) -> None:
    path = find_recording(folder, problem=problem, backend=backend, sample=sample, turn=turn)
    assert path == (folder / found if found else None)


def test_recorded_problems_are_listed(folder: Path) -> None:
    assert set(recorded_problems(folder)) == {"level2/01_matmul", "01_matmul", "02_cut"}


def request(problem: str = "level1/01_matmul", **fields: object) -> CompletionRequest:
    messages = (Message(role="system", content="be good"), Message(role="user", content="hello"))
    given = {"model": MODEL, "messages": messages, "problem": problem, "backend": "cpp", **fields}
    return CompletionRequest.model_validate(given)


def answers(server: ReplayServer, *requests: CompletionRequest, stream: bool = True) -> list[Any]:
    async def all_of_them() -> list[Any]:
        endpoint = Endpoint(name="replay", base_url=server.base_url, api_key="x", stream=stream)
        provider = OpenAIProvider(
            endpoint, ClientTerms(patience=RetryPolicy(max_retries=2, first_wait_s=0.01))
        )
        try:
            asked: list[Coroutine[Any, Any, Completion]] = [provider.complete(one) for one in requests]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await provider.close()

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("stream", [True, False])
def test_the_server_answers_the_real_client(folder: Path, stream: bool) -> None:
    with ReplayServer(folder) as server:
        first, second, cut = answers(server, request(), request(turn=1), request("02_cut"), stream=stream)
    assert (first.text, first.reasoning, first.finish_reason, first.model) == (
        "first",
        "thinking",
        "stop",
        MODEL,
    )
    assert second.text == "second"
    assert (cut.text, cut.finish_reason, cut.model) == ("hal", "length", "replay-deepseek-x")
    assert not first.usage.estimated
    assert first.usage.prompt_tokens == estimate_tokens("be good") + estimate_tokens("hello")
    assert first.usage.completion_tokens == estimate_tokens("first") + estimate_tokens("thinking")
    assert first.usage.reasoning_tokens == estimate_tokens("thinking")


def test_a_reply_comes_back_byte_for_byte(tmp_path: Path) -> None:
    text = "é漢🙂\u2028\x85\r\n\ttail  \n\n" + "x" * 5000
    write_recording(tmp_path / "01_matmul/cpp/00.md", Recording(text))
    with ReplayServer(tmp_path) as server:
        for stream in (True, False):
            (answer,) = answers(server, request(), stream=stream)
            assert answer.text == text


def test_what_the_server_refuses(folder: Path) -> None:
    with ReplayServer(folder) as server:
        unknown, missing = answers(server, request(model="gpt-x"), request("level1/99_none"))
    assert isinstance(unknown, ProviderError) and unknown.fatal
    assert "this endpoint lists: replay-handwritten, replay-deepseek-x" in str(unknown).replace(
        "replay-deepseek-x, replay-handwritten", "replay-handwritten, replay-deepseek-x"
    )
    assert isinstance(missing, ProviderError) and not missing.fatal
    assert "no recording for problem 'level1/99_none' with backend 'cpp'" in str(missing)


def test_other_clients_are_understood_by_their_prompt(folder: Path) -> None:
    def post(body: object) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(f"{server.base_url}/chat/completions", data, {"Connection": "close"})
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def ask(*contents: str) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(contents)]
        status, body = post({"model": MODEL, "messages": messages})
        assert status == 200, body
        return str(body["choices"][0]["message"]["content"])

    with ReplayServer(folder) as server:
        assert ask("Problem: level1/01_matmul\nBackend: cpp\n") == "first"
        assert ask("Problem: level1/01_matmul\nBackend: cpp\n", "first", "worse") == "second"
        assert ask("make 01_matmul faster") == "cuda"
        for bad in (b"{", b"[]", {"model": MODEL}, {"model": MODEL, "messages": [{"role": "user"}]}):
            status, body = post(bad)
            assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert post({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "n": 2})[0] == 400


def test_a_stopped_server_leaves_no_thread_behind(folder: Path) -> None:
    before = threading.active_count()
    with ReplayServer(folder) as server:
        answers(server, request())
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "process_request" in thread.name:
            thread.join(5)
    assert threading.active_count() <= before


def test_a_recorded_run_replays_as_it_was(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    asked = [request(), request(turn=1), request(sample=1), request("02_cut")]

    async def record(server: ReplayServer) -> list[Completion]:
        inner = OpenAIProvider(Endpoint(name="live", base_url=server.base_url, api_key="x"), ClientTerms())
        provider = RecordingProvider(inner, kept)
        assert provider.name == "live"
        try:
            return [await provider.complete(one) for one in asked]
        finally:
            await provider.close()

    with ReplayServer(folder) as server:
        live = asyncio.run(record(server))
    with ReplayServer(kept) as server:
        again = answers(server, *asked)
    same = [(one.text, one.reasoning, one.finish_reason) for one in live]
    assert [(one.text, one.reasoning, one.finish_reason) for one in again] == same
    path = recording_path(kept, request(sample=1))
    assert path == kept / "01_matmul/cpp/sample-1/00.md"
    assert read_recording(path).label == MODEL
