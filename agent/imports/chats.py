"""Chat completions in JSON Lines: responses, request and response pairs, batch results, conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from agent.imports.reply import ImportedReply, UnreadableImport
from agent.messages import Message, Usage

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read_chats(text: str, origin: str) -> Iterator[ImportedReply]:
    """Every reply in a file's text, choices of one response apart.

    Raises:
        UnreadableImport: a line that is not JSON, or holds no reply.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{origin}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UnreadableImport(f"{place} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise UnreadableImport(f"{place} is not a JSON object")
        replies = list(_read_object(value, place))
        if not replies:
            raise UnreadableImport(
                f"{place} holds no reply; expected `choices`, `response`, or `messages` that end with one"
            )
        yield from replies


def _read_object(value: Mapping[str, object], origin: str) -> Iterator[ImportedReply]:
    request = _mapping(value.get("request")) or _mapping(value.get("body")) or value
    response = _mapping(value.get("response")) or value
    response = _mapping(response.get("body")) or response
    messages = _messages(request.get("messages") or request.get("prompt"))
    choices = response.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict):
                yield _read_choice(choice, value, response, messages, origin)
    elif messages and messages[-1].role == "assistant":
        yield ImportedReply(
            origin=origin, text=messages[-1].content, messages=messages[:-1], **_labels(value, response)
        )
    elif isinstance(value.get("completion"), str):
        yield ImportedReply(
            origin=origin, text=str(value["completion"]), messages=messages, **_labels(value, response)
        )


def _read_choice(
    choice: Mapping[str, object],
    value: Mapping[str, object],
    response: Mapping[str, object],
    messages: tuple[Message, ...],
    origin: str,
) -> ImportedReply:
    message = _mapping(choice.get("message")) or {}
    text = message.get("content", choice.get("text"))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return ImportedReply(
        origin=origin,
        text=_text(text),
        reasoning=_text(reasoning),
        messages=messages,
        finish_reason=_text(choice.get("finish_reason")),
        usage=_usage(_mapping(response.get("usage")) or {}),
        response_id=_text(response.get("id")),
        generated_at=_time(response.get("created")),
        **_labels(value, response),
    )


def _labels(value: Mapping[str, object], response: Mapping[str, object]) -> dict[str, str | None]:
    metadata = _mapping(value.get("metadata")) or {}

    def named(*names: str) -> str | None:
        found = (place.get(name) for name in names for place in (value, metadata))
        return next((item for item in found if isinstance(item, str) and item), None)

    model = response.get("model") or value.get("model")
    return {
        "problem": named("problem", "problem_id", "problem_name", "custom_id"),
        "backend": named("backend"),
        "model": model if isinstance(model, str) else None,
    }


def _messages(value: object) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message(role="user", content=value),)
    if not isinstance(value, list):
        return ()
    found = []
    for item in value:
        role = ROLES.get(str(item.get("role"))) if isinstance(item, dict) else None
        if role is not None:
            found.append(Message.model_validate({"role": role, "content": _text(item.get("content"))}))
    return tuple(found)


def _usage(usage: Mapping[str, object]) -> Usage:
    details = _mapping(usage.get("completion_tokens_details")) or {}

    def count(place: Mapping[str, object], name: str) -> int:
        number = place.get(name)
        return number if isinstance(number, int) and number >= 0 else 0

    return Usage(
        prompt_tokens=count(usage, "prompt_tokens"),
        completion_tokens=count(usage, "completion_tokens"),
        reasoning_tokens=count(details, "reasoning_tokens"),
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _time(value: object) -> str | None:
    if not isinstance(value, int) or not 0 < value < 1 << 40:
        return None
    return datetime.fromtimestamp(value, UTC).isoformat()


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None
