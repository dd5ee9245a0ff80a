"""A small loopback server that speaks the OpenAI chat-completions protocol and replies from recordings.

Request headers of our own client choose the recording: `X-Kernelwright-Problem`, `-Backend`, `-Sample` and
`-Turn`. Without them the problem and backend named in the prompt do, and the number of assistant messages.
It samples nothing, so sampling parameters change nothing. Token counts are estimates, and the same every
time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import unquote

from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.agent.providers.policy import STREAM_PIECE
from kernelwright.agent.providers.replay.loopback_server import (
    HttpFailure,
    HttpRequest,
    HttpResponse,
    LoopbackServer,
)
from kernelwright.agent.providers.replay.recordings import (
    HANDWRITTEN,
    Recording,
    find_recording,
    read_recording,
    recorded_problems,
)
from kernelwright.agent.records.tokens import estimate_usage
from kernelwright.evaluator import Record, sha256_text

MODEL: Final = f"replay-{HANDWRITTEN}"
"""The model the server offers; a recording made from a live model is answered as `replay-<that model>`."""
_BACKEND: Final = re.compile(r"^\W*backend\W+(\w+)", re.IGNORECASE | re.MULTILINE)


class ReplayServer(LoopbackServer):
    """Serves a folder of recordings while it is entered."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        super().__init__(self._respond, port=port)
        self._folder = folder

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI clients."""
        return f"{self.url}/v1"

    def _respond(self, question: HttpRequest) -> HttpResponse:
        match question.method, question.path.rstrip("/"):
            case "GET", "/v1/models":
                models = [
                    {"id": model, "object": "model", "owned_by": "kernelwright"} for model in self._models
                ]
                return HttpResponse(body={"object": "list", "data": models})
            case "POST", "/v1/chat/completions":
                return self._complete(question)
            case method, path:
                raise HttpFailure(404, f"no such endpoint: {method} {path}", code="unknown_url")

    def _complete(self, question: HttpRequest) -> HttpResponse:
        body = question.json()
        messages = _messages(body)
        model = body.get("model")
        if model != MODEL and model not in self._models:
            raise HttpFailure(404, f"the model `{model}` does not exist", code="model_not_found")
        if body.get("n") not in (None, 1):
            raise HttpFailure(400, "only n=1 is served; ask once for each sample", code="unsupported_value")
        reply = _Reply(self._find(question.headers, messages), messages)
        if not body.get("stream"):
            return HttpResponse(body=reply.whole())
        options = body.get("stream_options")
        with_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        return HttpResponse(events=reply.chunks(with_usage=with_usage))

    def _find(self, headers: Mapping[str, str], messages: list[_Message]) -> Recording:
        prompt = "\n".join(message.content for message in messages if message.role != "assistant")
        problem = unquote(headers.get("x-kernelwright-problem", "")) or self._problem_in(prompt)
        backend = unquote(headers.get("x-kernelwright-backend", ""))
        if not backend:
            found = _BACKEND.search(prompt)
            backend = found[1] if found else "cuda"
        path = find_recording(
            self._folder,
            problem=problem,
            backend=backend,
            sample=_number(headers.get("x-kernelwright-sample"), 0),
            turn=_number(
                headers.get("x-kernelwright-turn"), sum(message.role == "assistant" for message in messages)
            ),
        )
        if path is None:
            raise HttpFailure(
                404,
                f"no recording for problem {problem!r} with backend {backend!r} "
                f"in {self._folder.name}; choose a recorded problem, or use a live model",
                code="recording_not_found",
            )
        try:
            return read_recording(path)
        except OSError as error:
            raise HttpFailure(
                500, f"cannot read a recording: {error}", code="recording_unreadable"
            ) from error

    def _problem_in(self, prompt: str) -> str:
        known = recorded_problems(self._folder)
        named = [name for name in known if name in prompt]
        named += [name for name in known if name.rpartition("/")[2] in prompt]
        return named[0] if named else "unnamed"

    @cached_property
    def _models(self) -> tuple[str, ...]:
        labels = {read_recording(path).label for path in self._folder.rglob("*.md")}
        return (MODEL, *sorted(f"replay-{label}" for label in labels - {HANDWRITTEN}))


class _Message(Record, extra="ignore", strict=True):
    role: str
    content: str


_MESSAGES: Final = TypeAdapter(Annotated[list[_Message], Field(min_length=1)])


class _Reply:
    """A recording as the protocol says it."""

    def __init__(self, recording: Recording, messages: list[_Message]) -> None:
        self._recording = recording
        said = "\0".join((*(message.content for message in messages), recording.text))
        self._base: dict[str, object] = {
            "id": f"chatcmpl-replay-{sha256_text(said)[:16]}",
            "created": int(time.time()),
            "model": f"replay-{recording.label}",
        }
        prompt = (message.content for message in messages)
        usage = estimate_usage(prompt, recording.text, recording.reasoning)
        self._usage = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }

    def whole(self) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": self._recording.text}
        if self._recording.reasoning:
            message["reasoning_content"] = self._recording.reasoning
        choice = {"index": 0, "message": message, "finish_reason": self._recording.finish_reason}
        return {**self._base, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def chunks(self, *, with_usage: bool) -> tuple[str, ...]:
        deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in _pieces(self._recording.reasoning)]
        deltas += [{"content": piece} for piece in _pieces(self._recording.text)]
        choices: list[dict[str, object]] = [
            {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
        ]
        choices.append({"index": 0, "delta": {}, "finish_reason": self._recording.finish_reason})
        base = {**self._base, "object": "chat.completion.chunk"}
        events: list[dict[str, object]] = [{**base, "choices": [choice]} for choice in choices]
        if with_usage:
            events.append({**base, "choices": [], "usage": self._usage})
        return (*(json.dumps(event) for event in events), "[DONE]")


def _pieces(text: str) -> list[str]:
    return [text[start : start + STREAM_PIECE] for start in range(0, len(text), STREAM_PIECE)]


def _messages(body: Mapping[str, object]) -> list[_Message]:
    try:
        return _MESSAGES.validate_python(body.get("messages"))
    except ValidationError:
        said = "messages must be a list of at least one message, each with a role and a text content"
        raise HttpFailure(400, said, code="invalid_value") from None


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 9 else otherwise
