"""`kernelwright replay`: serve recorded replies over the OpenAI protocol, in the foreground."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

from kernelwright.agent.cli.terminal.options import option
from kernelwright.agent.setup.usage_error import UsageError

_GLANCE_S: Final = 0.5
"""Longest sleep: a signal that comes just before it is noticed when it ends."""


def replay(
    folder: Annotated[Path | None, option("Folder of recordings. Default: the installed ones.")] = None,
    port: Annotated[int, option("Port on the loopback; 0 takes a free one.", min=0, max=65535)] = 0,
) -> None:
    """Answer chat completions from recorded files until Ctrl-C, for any OpenAI client on this machine.

    Recordings lie in FOLDER/PROBLEM/BACKEND/NN.md, one file a turn; `kernelwright run --record FOLDER` writes
    them.
    """
    from kernelwright.agent.prompting.prompts import installed_prompts
    from kernelwright.agent.providers.replay.recordings import recorded_problems
    from kernelwright.agent.providers.replay.replay_server import MODEL, ReplayServer

    place = folder or installed_prompts() / "recordings"
    if not place.is_dir():
        raise UsageError(f"no folder of recordings: {place}")
    with ReplayServer(place, port=port) as server:
        print(f"answering for {len(recorded_problems(place))} problems of {place}; Ctrl-C stops")
        print(f"export OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY=none   # model: {MODEL}", flush=True)
        while True:
            time.sleep(_GLANCE_S)
