"""Stands before every request: who asks, how much they send, for how long, and whether it is strict JSON."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelwright.agent.service.problem_details import refuse, retry_later

OPEN: Final = frozenset({"/healthz", "/healthz/live", "/docs", "/openapi.json"})
"""Paths that need no token."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DISCARDED: Final = 4
"""Bodies of the largest size that are let in to be thrown away."""
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request may cost."""

    body_bytes: int = 4 << 20
    """Largest body."""
    body_s: float = 20.0
    """Time for a body to arrive."""
    held_bytes: int = 64 << 20
    """Bodies of all requests together, while they arrive."""


class Tokens:
    """The bearer tokens that open the service; only their hashes are kept."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._digests = tuple(_digest(token) for token in tokens)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def open_for(self, authorization: str) -> bool:
        """Whether a header holds one of them; takes the same time whichever it is."""
        scheme, _, token = authorization.partition(" ")
        given = _digest(token.strip())
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return scheme.lower() == "bearer" and any(matches)


class RequestGuard:
    """ASGI middleware; whatever it refuses, the application never sees."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        bounds: Bounds,
        hosts: frozenset[str] | None,
        answered: Callable[[int], None],
    ) -> None:
        """`hosts` are the names it may be called by, None for any: without tokens a web page that gets a
        browser to call us by another name must not be let in."""
        self._app = app
        self._tokens = tokens
        self._bounds = bounds
        self._hosts = hosts
        self._answered = answered
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(message["status"])
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refuse(scope["path"], headers)
        if refusal is not None:
            await self._discard(receive)
            await refusal(scope, receive, noting)
        elif scope["method"] in _BODILESS:
            await self._app(scope, receive, noting)
        else:
            await self._with_body(scope, receive, noting, headers)

    def _refuse(self, path: str, headers: Headers) -> Response | None:
        if self._hosts is not None and _host(headers.get("host", "")) not in self._hosts:
            return refuse(
                421, "wrong-host", "without a token this service answers to names of the loopback only"
            )
        if self._tokens and path not in OPEN and not self._tokens.open_for(headers.get("authorization", "")):
            return refuse(
                401,
                "unauthorized",
                "send `Authorization: Bearer TOKEN` with a token of this service",
                headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
            )
        return None

    async def _with_body(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        body = bytearray()
        try:
            refusal = await self._collect(receive, headers, body)
            if refusal is None and (body or scope["method"] == "POST"):
                refusal = _read_strictly(body, headers)
        finally:
            self._held -= len(body)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, again, send)

    async def _collect(self, receive: Receive, headers: Headers, body: bytearray) -> Response | None:
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._bounds.body_bytes:
            return await self._too_large(receive)
        try:
            async with asyncio.timeout(self._bounds.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return refuse(400, "disconnected", "the body did not arrive whole")
                    piece = message.get("body", b"")
                    body += piece
                    self._held += len(piece)
                    if len(body) > self._bounds.body_bytes:
                        return await self._too_large(receive)
                    if self._held > self._bounds.held_bytes:
                        return retry_later(429, "too-much-at-once", "too many bodies at once", 1)
                    if not message.get("more_body", False):
                        return None
        except TimeoutError:
            detail = f"the body did not arrive within {self._bounds.body_s:g} s"
            return refuse(408, "too-slow", detail, headers={"Connection": "close"})

    async def _discard(self, receive: Receive) -> None:
        """Let an unwanted body arrive, within reason: who is still sending does not hear a refusal."""
        left = _DISCARDED * self._bounds.body_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.body_s):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return

    async def _too_large(self, receive: Receive) -> Response:
        await self._discard(receive)
        detail = f"a body has at most {self._bounds.body_bytes} bytes here"
        return refuse(413, "too-large", detail, headers={"Connection": "close"})


def _read_strictly(body: bytearray, headers: Headers) -> Response | None:
    """Refuse what is no JSON in the strict sense: NaN, lone surrogates, nesting without end."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        # A web page can send anything else to us without the browser asking first.
        return refuse(415, "not-json", "send the body as Content-Type: application/json")
    try:
        from_json(bytes(body), allow_inf_nan=False)
    except ValueError as error:
        return refuse(422, "invalid-json", f"the body is not strict JSON in UTF-8: {error}")
    return None


def _host(value: str) -> str:
    """The name in a Host header, without its port."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0].lower()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
