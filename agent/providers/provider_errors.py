"""Diagnoses a failed try: can another help, and what can the user do?"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from kernelwright.agent.providers.chat_stream import MalformedReply
from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.policy import SHORTEST_SECRET

if TYPE_CHECKING:
    from openai import APIStatusError

RETRIED: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 that another try may cure."""
FATAL: Final = frozenset({401, 402, 403})
"""Statuses that every other request to this endpoint would meet too."""
_NO_CREDIT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a try brought no reply."""

    message: str
    retry: bool = True
    limited: bool = False
    """The endpoint said that we ask too much."""
    fatal: bool = False
    unknown_model: bool = False
    unreachable: bool = False
    """Nothing answered at all."""
    retry_after_s: float | None = None


def failures() -> tuple[type[Exception], ...]:
    """Exceptions of one try that are not mistakes of ours.

    The SDK's errors; those of the HTTP library below it, raised from streams (which one depends on the SDK's
    version); and what a broken reply causes while it is read: bad or bottomless JSON, unexpected shapes
    inside the SDK.
    """
    import openai

    broken = (MalformedReply, OSError, ValueError, TypeError, AttributeError, RecursionError)
    return (openai.OpenAIError, *broken, *_transport_errors())


def _transport_errors() -> tuple[type[Exception], ...]:
    loaded = [sys.modules[name] for name in ("httpx2", "httpx") if name in sys.modules]
    below = [getattr(module, name, None) for module in loaded for name in ("HTTPError", "StreamError")]
    return tuple(error for error in below if isinstance(error, type) and issubclass(error, Exception))


def diagnose(error: Exception, endpoint: Endpoint, model: str) -> Trouble:
    """Say what an exception of one try means; the key, which endpoints like to quote, is not repeated."""
    trouble = _diagnose(error, endpoint, model)
    return replace(trouble, message=_without_key(trouble.message, endpoint.api_key))


def _diagnose(error: Exception, endpoint: Endpoint, model: str) -> Trouble:
    import openai

    match error:
        case openai.APIStatusError():
            return _of_status(error, endpoint, model)
        case MalformedReply():
            retry = error.status is None or error.status in RETRIED or error.status >= 500
            return Trouble(
                f"{endpoint.name}: {error}",
                retry=retry,
                limited=error.status == 429,
                fatal=error.status in FATAL,
            )
        case openai.APITimeoutError() | TimeoutError():
            return Trouble(f"{endpoint.name}: no complete reply in time from {endpoint.base_url}")
        case _ if isinstance(error, (openai.APIConnectionError, *_transport_errors())):
            cause = _innermost(error)
            refused = isinstance(cause, ConnectionRefusedError)
            said = "connection refused" if refused else _one_line(str(cause)) or type(cause).__name__
            if refused or isinstance(cause, socket.gaierror):
                return Trouble(
                    f"{endpoint.name}: cannot reach {endpoint.base_url}: {said}; check the URL",
                    unreachable=True,
                )
            return Trouble(f"{endpoint.name}: the connection to {endpoint.base_url} failed: {said}")
        case _:
            return Trouble(
                f"{endpoint.name}: unreadable reply: {type(error).__name__}: {_one_line(str(error))}"
            )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds a response asks to wait: `retry-after-ms`, or `Retry-After`, seconds or date (RFC 9110)."""
    milliseconds, wait = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if _NUMBER.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    if _NUMBER.fullmatch(wait):
        return float(wait)
    try:
        return max(0.0, parsedate_to_datetime(wait).timestamp() - time.time())
    except ValueError:
        return None


def _of_status(error: APIStatusError, endpoint: Endpoint, model: str) -> Trouble:
    told = error.body.get("message") if isinstance(error.body, Mapping) else None
    status, said = error.status_code, _one_line(told if isinstance(told, str) and told else error.message)
    should_retry = error.response.headers.get("x-should-retry")
    is_about_model = error.code == "model_not_found" or (error.code is None and "model" in said.lower())
    if status == 429 and (error.code in _NO_CREDIT or error.type in _NO_CREDIT):
        return Trouble(
            f"{endpoint.name}: out of credit (429): {said}; add credit or use another key",
            retry=False,
            fatal=True,
        )
    return Trouble(
        f"{endpoint.name}: {_way_out(status, endpoint, model, said)}",
        retry=should_retry != "false" and (should_retry == "true" or status in RETRIED or status >= 500),
        limited=status == 429,
        fatal=status in FATAL,
        unknown_model=status == 404 and is_about_model,
        retry_after_s=retry_after_s(error.response.headers),
    )


def _way_out(status: int, endpoint: Endpoint, model: str, said: str) -> str:
    match status:
        case 401 | 403:
            return f"the key was refused ({status}): {said}; set {endpoint.key_variable} to a valid key"
        case 402:
            return f"payment required (402): {said}"
        case 404:
            return f"not found (404) at {endpoint.base_url} for model {model!r}: {said}"
        case 429:
            return f"too many requests (429): {said}; lower the concurrency"
        case 400 | 413 | 422:
            return f"the request was refused ({status}): {said}"
        case _:
            return f"error {status} from {endpoint.base_url}: {said}"


def _innermost(error: BaseException) -> BaseException:
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error


def _without_key(message: str, key: str) -> str:
    if len(key) < SHORTEST_SECRET:
        return message
    return re.sub(re.escape(key[:SHORTEST_SECRET]) + r"[\w.~+/=*-]*", "(the key)", message)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:297]}..."
