"""The provider `mailbox`: requests become Markdown files in a folder, and replies are awaited beside them.

    <folder>/<problem>/<backend>/NN.request.md               the request of turn NN, sample 0
    <folder>/<problem>/<backend>/NN.md                       its reply: from a person, chat window or agent
    <folder>/<problem>/<backend>/sample-<k>/NN.request.md    sample k

A reply has the format of a recording, so an answered folder replays. An interrupted run finds its requests
and their replies again; a folder belongs to one run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import ClassVar, Final

from pydantic import Field

from kernelwright.agent.providers.completion_cache import request_key
from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.policy import MAX_MAILBOX_BYTES
from kernelwright.agent.providers.provider_kind import ClientTerms, ProviderKind
from kernelwright.agent.providers.replay.recordings import (
    HANDWRITTEN,
    Recording,
    parse_recording,
    recording_path,
    safe_name,
)
from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider, ProviderError
from kernelwright.agent.records.provenance import now
from kernelwright.agent.records.tokens import estimate_usage
from kernelwright.evaluator import read_regular, write_whole

_NAME: Final = "mailbox"


class Mailbox(ProviderKind):
    """Requests as Markdown files in a folder, answered by whoever writes the reply beside them."""

    name: str = _NAME
    folder: str = "mailbox"
    """Folder of requests and replies; made where there is none."""
    poll_s: float = Field(default=1.0, gt=0)
    """Seconds between two looks for replies. A reply counts once it is the same in two looks."""

    default_models: ClassVar = (HANDWRITTEN,)
    is_live: ClassVar = False
    origin: ClassVar = _NAME

    @contextmanager
    def serve(self, endpoint: Endpoint, tell: Callable[[str], None]) -> Iterator[Endpoint]:
        tell(f"requests appear in {self.folder}; write each reply beside its request")
        yield endpoint

    def open(self, endpoint: Endpoint, terms: ClientTerms) -> Provider:
        return MailboxClient(Path(self.folder), poll_s=self.poll_s)


class MailboxClient:
    """Writes requests, and waits for their replies."""

    name = _NAME

    def __init__(self, folder: Path, *, poll_s: float) -> None:
        self._folder = folder
        self._poll_s = poll_s

    async def complete(self, request: CompletionRequest) -> Completion:
        """Write the request where it is not written yet, and return the reply once it is there.

        Raises:
            ProviderError: the folder holds another request in this place, or cannot be written or read.
        """
        started = time.monotonic()
        place = recording_path(self._folder, request)
        try:
            self._put(place.with_suffix(".request.md"), _formatted(request))
            reply = await self._reply(place)
        except OSError as error:
            raise ProviderError(f"mailbox {self._folder}: {error}", fatal=True) from error
        prompt = (message.content for message in request.messages)
        return Completion(
            provider=self.name,
            model=request.model if reply.label == HANDWRITTEN else reply.label,
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=safe_name(reply.finish_reason),
            usage=estimate_usage(prompt, reply.text, reply.reasoning),
            cost_usd=0.0,
            seconds=time.monotonic() - started,
            completed_at=now(),
        )

    async def close(self) -> None:
        """Nothing is held open."""

    def _put(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = self._folder.resolve() / path.parent.relative_to(self._folder)
        if path.parent.resolve() != own:
            raise ProviderError(
                f"{path.parent} leads out of the mailbox through a link; remove it", fatal=True
            )
        try:
            known = read_regular(path, most=MAX_MAILBOX_BYTES)
        except FileNotFoundError:
            write_whole(path, content)
            return
        if known != content:
            raise ProviderError(
                f"{path} is the request of another run; "
                "name a new folder with --set provider_options.folder=NAME",
                fatal=True,
            )

    async def _reply(self, path: Path) -> Recording:
        """Wait until the reply exists, is not empty, and is no longer being written."""
        seen: tuple[int, int] | None = None
        while True:
            found = _state(path)
            if found is not None and (found == seen or time.time_ns() - found[1] > self._poll_s * 1e9):
                try:
                    data = read_regular(path, most=MAX_MAILBOX_BYTES)
                except OSError as error:
                    raise ProviderError(f"{path} {error.strerror}: that is no reply") from None
                return parse_recording(data.decode("utf-8", "replace"))
            seen = found
            await asyncio.sleep(self._poll_s)


def _state(path: Path) -> tuple[int, int] | None:
    """Size in bytes and time of the last change in ns; None while there is nothing to read."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    # What is no regular file is as good as there: reading it says why it is no reply.
    return (found.st_size, found.st_mtime_ns) if found.st_size or not S_ISREG(found.st_mode) else None


def _formatted(request: CompletionRequest) -> bytes:
    """Write a request for people and agents: where the reply goes, then the messages, one section each."""
    name = f"{request.turn:02d}.md"
    head = (
        f"<!-- request {request_key(request, _NAME)[:16]} to {request.model}: "
        f"write the whole reply to {name} beside this file -->"
    )
    sections = [f"# {message.role}\n\n{message.content.strip()}" for message in request.messages]
    return "\n\n".join([head, *sections, ""]).encode("utf-8", "replace")
