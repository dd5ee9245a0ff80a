"""The provider `replay`: recorded replies, from a server on this machine that lives as long as the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from kernelwright.agent.prompting.prompts import installed_prompts
from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.openai_kinds import OpenAI
from kernelwright.agent.providers.replay.replay_server import MODEL, ReplayServer
from kernelwright.evaluator import ConfigError


class Replay(OpenAI):
    """Recorded replies; no key, no network, no cost."""

    name: str = "replay"
    recordings: str | None = None
    """Folder to answer from; None means the one that came along."""

    key_variables: ClassVar = ()
    url_variables: ClassVar = ()
    default_models: ClassVar = (MODEL,)
    is_live: ClassVar = False
    origin: ClassVar = "recording"
    bulk: ClassVar = ""

    @contextmanager
    def serve(self, endpoint: Endpoint, tell: Callable[[str], None]) -> Iterator[Endpoint]:
        folder = Path(self.recordings) if self.recordings else installed_prompts() / "recordings"
        if not folder.is_dir():
            raise ConfigError(f"no folder of recordings: {folder}")
        with ReplayServer(folder) as server:
            tell(f"replaying recorded replies of {folder} at {server.base_url}")
            yield replace(endpoint, base_url=server.base_url)
