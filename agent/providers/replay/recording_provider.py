"""Keeps every reply of another provider as a recording that the replay server can answer from."""

from __future__ import annotations

from pathlib import Path

from kernelwright.agent.providers.replay.recordings import (
    Recording,
    recording_path,
    safe_name,
    write_recording,
)
from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider


class RecordingProvider:
    """Passes requests on, and writes each reply below a folder."""

    def __init__(self, inner: Provider, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    @property
    def name(self) -> str:
        return self._inner.name

    async def complete(self, request: CompletionRequest) -> Completion:
        completion = await self._inner.complete(request)
        recording = Recording(
            text=completion.text,
            reasoning=completion.reasoning,
            finish_reason=safe_name(completion.finish_reason),
            label=safe_name(completion.model),
        )
        write_recording(recording_path(self._folder, request), recording)
        return completion

    async def close(self) -> None:
        await self._inner.close()
