"""Chat completions in JSON: responses, request and response pairs, batch results, conversations.

A file is one JSON text, an array of them, or JSON Lines. What holds no reply costs only itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kernelwright.agent.interop.imports.imported_reply import ImportedReply, OnSkip
from kernelwright.agent.providers.chat_stream import as_fields, as_text, read_message, read_usage
from kernelwright.agent.records.messages import Message, Usage

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read_chats(text: str, origin: str, on_skip: OnSkip) -> Iterator[ImportedReply]:
    """Every reply in a file's text, choices of one response apart."""
    for place, value in _values(text, origin, on_skip):
        if not isinstance(value, dict):
            on_skip(f"{place} is not a JSON object")
            continue
        replies = list(_read_object(value, place))
        if not replies:
            on_skip(f"{place} {_why_empty(value)}")
        yield from replies


def _values(text: str, origin: str, on_skip: OnSkip) -> Iterator[tuple[str, object]]:
    try:
        whole = _parse(text)
    except ValueError:
        yield from _lines(text, origin, on_skip)
        return
    if not isinstance(whole, list):
        yield f"{origin}:1", whole
    elif whole and all(isinstance(item, dict) and "role" in item for item in whole):
        yield f"{origin}:1", {"messages": whole}
    else:
        yield from ((f"{origin}[{number}]", item) for number, item in enumerate(whole))


def _lines(text: str, origin: str, on_skip: OnSkip) -> Iterator[tuple[str, object]]:
    # Not `splitlines`: JSON strings may hold U+2028 and its like as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = _parse(line)
        except ValueError as error:
            on_skip(f"{origin}:{number} is not JSON: {error}")
        else:
            yield f"{origin}:{number}", value


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _why_empty(value: Mapping[str, object]) -> str:
    response = as_fields(value.get("response")) or {}
    body = as_fields(response.get("body")) or response
    error = as_fields(value.get("error")) or as_fields(body.get("error"))
    status = response.get("status_code")
    if error is None and not (isinstance(status, int) and status >= 400):
        return "holds no reply; expected `choices`, `response`, or `messages` that end with one"
    said = " ".join(as_text((error or {}).get("message")).split())[:200]
    told = ": ".join(part for part in (str(status or ""), said) if part)
    return f"is of a request that failed ({told or 'it does not say why'})"


def _read_object(value: Mapping[str, object], origin: str) -> Iterator[ImportedReply]:
    request = as_fields(value.get("request")) or as_fields(value.get("body")) or value
    response = as_fields(value.get("response")) or value
    response = as_fields(response.get("body")) or response
    messages = _messages(request.get("messages") or request.get("prompt"))
    choices = response.get("choices")
    if isinstance(choices, list):
        found = [choice for choice in choices if isinstance(choice, dict)]
        for number, choice in enumerate(found):
            reply = _read_choice(choice, value, response, messages, origin)
            # The response counts the tokens of all its choices together.
            yield reply if number == 0 else reply.model_copy(update={"usage": Usage()})
    elif messages and messages[-1].role == "assistant":
        yield ImportedReply(
            origin=origin,
            text=messages[-1].content,
            reasoning=_last_reasoning(request.get("messages")),
            messages=messages[:-1],
            **_labels(value, response),
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
    message = as_fields(choice.get("message")) or {}
    text, reasoning = read_message({"content": choice.get("text"), **message})
    return ImportedReply(
        origin=origin,
        text=text,
        reasoning=reasoning,
        messages=messages,
        finish_reason=as_text(choice.get("finish_reason")),
        usage=read_usage(response.get("usage")) or Usage(),
        response_id=as_text(response.get("id")),
        generated_at=_time(response.get("created")),
        **_labels(value, response),
    )


def _last_reasoning(messages: object) -> str:
    if not isinstance(messages, list):
        return ""
    return read_message(next((item for item in reversed(messages) if _role(item) == "assistant"), {}))[1]


def _labels(value: Mapping[str, object], response: Mapping[str, object]) -> dict[str, str | None]:
    metadata = as_fields(value.get("metadata")) or {}

    def named(*names: str) -> str | None:
        found = (place.get(name) for name in names for place in (value, metadata))
        return next((item for item in found if isinstance(item, str) and item), None)

    model = response.get("model") or value.get("model")
    return {
        "problem": named("problem", "problem_id", "problem_name")
        or _numbered(value)
        or _numbered(metadata)
        or named("custom_id"),
        "backend": named("backend"),
        "model": model if isinstance(model, str) else None,
    }


def _numbered(place: Mapping[str, object]) -> str | None:
    """A problem that is told by its number, as KernelBench does."""
    number, level = place.get("problem_id"), place.get("level")
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    return f"level{str(level).removeprefix('level')}/{number}" if level is not None else str(number)


def _messages(value: object) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message(role="user", content=value),)
    if not isinstance(value, list):
        return ()
    found = []
    for item in value:
        role = _role(item)
        if role is not None:
            found.append(Message.model_validate({"role": role, "content": read_message(item)[0]}))
    return tuple(found)


def _role(item: object) -> str | None:
    return ROLES.get(str(item.get("role"))) if isinstance(item, dict) else None


def _time(value: object) -> str | None:
    if not isinstance(value, int | float) or value <= 0:
        return None
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        # No such time; some write milliseconds, and some anything at all.
        return None
