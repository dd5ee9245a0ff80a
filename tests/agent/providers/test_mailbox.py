"""The mailbox provider: requests and replies as files of one folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.mailbox import Mailbox
from kernelwright.agent.providers.policy import MAX_MAILBOX_BYTES
from kernelwright.agent.providers.provider_kind import ClientTerms, find_provider
from kernelwright.agent.providers.replay.recordings import Recording, find_recording, write_recording
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message, ProviderError
from kernelwright.agent.records.tokens import estimate_tokens

POLL_S = 0.02


def request(content: str = "make it fast", **fields: object) -> CompletionRequest:
    messages = (Message(role="system", content="be brief"), Message(role="user", content=content))
    given = {"model": "someone", "messages": messages, "problem": "attention/causal", "backend": "cuda"}
    return CompletionRequest.model_validate({**given, **fields})


async def completed(folder: Path, *requests: CompletionRequest) -> list[Completion]:
    provider = Mailbox(folder=str(folder), poll_s=POLL_S).open(Endpoint(name="mailbox"), ClientTerms())
    try:
        return await asyncio.gather(*(provider.complete(one) for one in requests))
    finally:
        await provider.close()


async def appeared(path: Path) -> Path:
    while not path.exists():
        await asyncio.sleep(POLL_S)
    return path


def test_a_request_is_a_file_and_its_reply_is_awaited_beside_it(tmp_path: Path) -> None:
    async def conversation() -> Completion:
        asked = asyncio.create_task(completed(tmp_path, request(sample=2, turn=1)))
        letter = await appeared(tmp_path / "causal/cuda/sample-2/01.request.md")
        assert "make it fast" in letter.read_text() and "01.md" in letter.read_text()
        assert not asked.done()
        write_recording(letter.parent / "01.md", Recording(text="here", reasoning="hm", label="a-model"))
        return (await asked)[0]

    completion = asyncio.run(asyncio.wait_for(conversation(), 30))
    assert (completion.text, completion.reasoning, completion.model) == ("here", "hm", "a-model")
    assert completion.usage.estimated
    assert completion.usage.prompt_tokens == estimate_tokens("be brief") + estimate_tokens("make it fast")
    assert completion.cost_usd == 0.0


def test_a_reply_still_being_written_is_not_taken(tmp_path: Path) -> None:
    async def conversation() -> Completion:
        asked = asyncio.create_task(completed(tmp_path, request()))
        letter = await appeared(tmp_path / "causal/cuda/00.request.md")
        with (letter.parent / "00.md").open("w") as reply:
            for word in ("one ", "two ", "three"):
                await asyncio.sleep(0)
                reply.write(word)
                reply.flush()
        return (await asked)[0]

    assert asyncio.run(asyncio.wait_for(conversation(), 30)).text == "one two three"


def test_an_interrupted_run_finds_its_replies_again_and_the_folder_replays(tmp_path: Path) -> None:
    async def interrupted() -> None:
        asked = asyncio.create_task(completed(tmp_path, request()))
        await appeared(tmp_path / "causal/cuda/00.request.md")
        asked.cancel()

    asyncio.run(asyncio.wait_for(interrupted(), 30))
    (tmp_path / "causal/cuda/00.md").write_text("answered meanwhile")
    again = asyncio.run(asyncio.wait_for(completed(tmp_path, request()), 30))
    assert again[0].text == "answered meanwhile"
    found = find_recording(tmp_path, problem="attention/causal", backend="cuda", sample=0, turn=0)
    assert found == tmp_path / "causal/cuda/00.md"


def test_a_folder_of_another_run_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "causal/cuda").mkdir(parents=True)
    (tmp_path / "causal/cuda/00.request.md").write_text("something else")
    with pytest.raises(ProviderError, match=r"00\.request\.md is the request of another run.*folder=NAME"):
        asyncio.run(completed(tmp_path, request()))


def test_a_folder_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProviderError, match="file") as error:
        asyncio.run(completed(tmp_path / "file", request()))
    assert error.value.fatal


def test_it_is_registered_and_needs_neither_key_nor_price() -> None:
    kind = find_provider("mailbox")
    assert kind is Mailbox and not kind.is_live and kind.origin == "mailbox"


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (lambda reply, other: reply.symlink_to(other), "is a link"),
        (lambda reply, other: os.mkfifo(reply), "is no regular file"),
        (lambda reply, other: reply.mkdir(), "is no regular file"),
        (lambda reply, other: reply.write_bytes(b"x" * (MAX_MAILBOX_BYTES + 1)), "is larger than"),
    ],
)
def test_only_a_regular_file_of_bounded_size_is_a_reply(
    tmp_path: Path, put: Callable[[Path, Path], object], why: str
) -> None:
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "box/causal/cuda").mkdir(parents=True)
    put(tmp_path / "box/causal/cuda/00.md", tmp_path / "secret")
    with pytest.raises(ProviderError, match=why):
        asyncio.run(asyncio.wait_for(completed(tmp_path / "box", request()), 30))


def test_a_mailbox_is_not_left_through_links(tmp_path: Path) -> None:
    for name in ("box", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "box/causal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProviderError, match="leads out of the mailbox"):
        asyncio.run(asyncio.wait_for(completed(tmp_path / "box", request()), 30))
    (tmp_path / "door").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/causal/cuda").mkdir(parents=True)
    (tmp_path / "elsewhere/causal/cuda/00.md").write_text("the folder itself may be a link")
    assert asyncio.run(asyncio.wait_for(completed(tmp_path / "door", request()), 30))
