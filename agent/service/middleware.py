"""Checks every request before the application: token, host, size, time, and strict JSON.

Written here because Starlette bounds neither the size, the time nor the sum of bodies, and its host check
answers without a problem document.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelwright.agent.service.policy import DISCARDED_BODIES, RequestBounds
from kernelwright.agent.service.responses import refuse, retry_later

OPEN: Final = frozenset({"/", "/healthz", "/healthz/live", "/docs", "/openapi.json"})
"""Paths that need no token."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
Pieces: TypeAlias = AsyncGenerator[bytes, None]
"""A body as it arrives."""
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Tokens:
    """The bearer tokens that open the service; only their hashes are saved."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._digests = tuple(_digest(token) for token in tokens)

    def client_of(self, authorization: str) -> str | None:
        """The client of a header's token, found in constant time; None for none of ours.

        Without tokens all are one client.
        """
        scheme, _, token = authorization.partition(" ")
        given = _digest(token.strip())
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if not self._digests:
            return ""
        return given.hex() if scheme.lower() == "bearer" and any(matches) else None


@dataclass(slots=True, eq=False)
class RequestGuard:
    """ASGI middleware; the application never sees a refused request."""

    app: ASGIApp
    tokens: Tokens
    bounds: RequestBounds
    hosts: frozenset[str] | None
    """Host names that are accepted, None for any: without tokens, a web page that makes a browser call this
    service by another name must be refused."""
    answered: Callable[[int], None]
    """Told the status of every answer."""
    held_bytes: int = 0
    """Bodies that are arriving, all together."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answered(message["status"])
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        headers = Headers(scope=scope)
        client = self.tokens.client_of(headers.get("authorization", ""))
        scope.setdefault("state", {})["client"] = client
        refusal = self._refuse(scope["path"], headers, client)
        if refusal is not None:
            await self._discard(Request(scope, receive).stream())
            await refusal(scope, receive, noting)
        elif scope["method"] in _BODILESS:
            await self.app(scope, receive, noting)
        else:
            await self._with_body(scope, receive, noting, headers)

    def _refuse(self, path: str, headers: Headers, client: str | None) -> Response | None:
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            return refuse(
                421, "wrong-host", "without a token this service answers to names of the loopback only"
            )
        if client is None and path not in OPEN:
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
            refusal = await self._collect(Request(scope, receive).stream(), headers, body)
            if refusal is None and (body or scope["method"] == "POST"):
                refusal = _read_strictly(body, headers)
        finally:
            self.held_bytes -= len(body)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, again, send)

    async def _collect(self, pieces: Pieces, headers: Headers, body: bytearray) -> Response | None:
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self.bounds.body_bytes:
            return await self._too_large(pieces)
        try:
            async with asyncio.timeout(self.bounds.body_s):
                async for piece in pieces:
                    body += piece
                    self.held_bytes += len(piece)
                    if len(body) > self.bounds.body_bytes:
                        return await self._too_large(pieces)
                    if self.held_bytes > self.bounds.held_bytes:
                        return retry_later(429, "too-much-at-once", "too many bodies at once", 1)
        except ClientDisconnect:
            return refuse(400, "disconnected", "the body did not arrive whole")
        except TimeoutError:
            detail = f"the body did not arrive within {self.bounds.body_s:g} s"
            return refuse(408, "too-slow", detail, headers={"Connection": "close"})
        return None

    async def _discard(self, pieces: Pieces) -> None:
        """Read an unwanted body, within bounds: a client that still sends does not read a refusal."""
        left = DISCARDED_BODIES * self.bounds.body_bytes
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(self.bounds.body_s):
                async for piece in pieces:
                    left -= len(piece)
                    if left <= 0:
                        return

    async def _too_large(self, pieces: Pieces) -> Response:
        await self._discard(pieces)
        detail = f"a body has at most {self.bounds.body_bytes} bytes here"
        return refuse(413, "too-large", detail, headers={"Connection": "close"})


def _read_strictly(body: bytearray, headers: Headers) -> Response | None:
    """Refuse a body that is not strict JSON: NaN, lone surrogates, unbounded nesting."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        # A web page can send any other type without a preflight request of the browser.
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
