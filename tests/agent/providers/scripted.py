"""An OpenAI-compatible server on loopback that fails as real endpoints do, and counts everything it sees."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 10},
}


@dataclass(frozen=True)
class Step:
    """The response to one request."""

    kind: str = "ok"
    """`ok`, `status`, `drop`, `hang`, `malformed`, `deep`, `html`, `cut`, `empty`, `cut_behind`,
    `error_inside`, `no_choices`."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    text: str = "hello wörld"
    reasoning: str = ""
    finish_reason: str | None = "stop"
    delay_s: float = 0.0
    usage: Any = field(default_factory=lambda: USAGE)
    message: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the message."""


OK = Step()
Script = Callable[[dict[str, Any], int], Step]
"""From a request's body and how often the same prompt was asked before to the answer."""


def refused(status: int, message: str = "no", *, code: str | None = None, **headers: str) -> Step:
    """An error as OpenAI's endpoints send it."""
    body = {"error": {"message": message, "type": "t", "param": None, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Step(kind="status", status=status, body=body, headers=named)


class ScriptedServer:
    """Runs on the event loop of the test; counts requests, tries by prompt, and replies sent whole."""

    def __init__(self, script: Script, *, models: tuple[str, ...] = ("good-model",)) -> None:
        self.script = script
        self.models = models
        self.tries: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.keep_requests = True
        self.in_flight = self.most_in_flight = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        if head[0].startswith("GET"):
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
            return await self._send(writer, 200, json.dumps(listed).encode(), {})
        prompt = body["messages"][-1]["content"]
        step = self.script(body, self.tries[prompt])
        self.tries[prompt] += 1
        if self.keep_requests:
            self.requests.append(body)
            self.headers.append(headers)
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            await asyncio.sleep(step.delay_s)
            keep = await self._answer(writer, step, body)
        finally:
            self.in_flight -= 1
        if step.kind == "ok":
            self.answered[prompt] += 1
        return keep

    async def _answer(self, writer: asyncio.StreamWriter, step: Step, body: dict[str, Any]) -> bool:
        whole_reply = not body.get("stream")
        match "no_choices" if step.kind == "empty" and whole_reply else step.kind:
            case "status":
                return await self._send(writer, step.status, json.dumps(step.body).encode(), step.headers)
            case "drop":
                return False
            case "hang":
                await asyncio.sleep(60)
                return False
            case "malformed":
                return await self._send(writer, 200, b'{"choices": [{"mess', {})
            case "deep":
                return await self._send(writer, 200, b'{"choices":' + b"[" * 200_000, {})
            case "html":
                page = {"Content-Type": "text/html"}
                return await self._send(writer, step.status, b"<html>Bad gateway</html>", page)
            case "no_choices":
                return await self._send(writer, 200, json.dumps({"choices": []}).encode(), {})
            case "error_inside":
                return await self._send(writer, 200, json.dumps({"error": step.body}).encode(), {})
            case _:
                return await (self._whole if whole_reply else self._stream)(writer, step, body)

    async def _whole(self, writer: asyncio.StreamWriter, step: Step, body: dict[str, Any]) -> bool:
        message = {"role": "assistant", "content": step.text, **step.message}
        if step.reasoning:
            message["reasoning_content"] = step.reasoning
        choice = {"index": 0, "message": message, "finish_reason": step.finish_reason}
        reply = {"id": "r-1", "object": "chat.completion", "created": 1, "model": f"{body['model']}-01"}
        data = json.dumps({**reply, "choices": [choice], "usage": step.usage}).encode()
        if step.kind == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data[: len(data) // 2]))
            await writer.drain()
            return False
        return await self._send(writer, 200, data, {})

    async def _stream(self, writer: asyncio.StreamWriter, step: Step, body: dict[str, Any]) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        base = {"id": "r-1", "object": "chat.completion.chunk", "created": 1, "model": f"{body['model']}-01"}
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        deltas += [
            {"reasoning_content": step.reasoning[at : at + 7]} for at in range(0, len(step.reasoning), 7)
        ]
        deltas += [{"content": step.text[at : at + 7]} for at in range(0, len(step.text), 7)]
        events = [{**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        events.append(
            {**base, "choices": [{"index": 0, "delta": step.message, "finish_reason": step.finish_reason}]}
        )
        if body.get("stream_options", {}).get("include_usage"):
            events.append({**base, "choices": [], "usage": step.usage})
        kept = {"cut": len(events) // 2, "empty": len(events) // 2, "cut_behind": len(events) - 1}
        lines = [f"data: {json.dumps(event)}\n\n" for event in events[: kept.get(step.kind)]]
        lines += [] if step.kind.startswith("cut") else ["data: [DONE]\n\n"]
        for line in lines:
            data = line.encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        if step.kind.startswith("cut"):
            await writer.drain()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, data: bytes, headers: Mapping[str, str]
    ) -> bool:
        every = {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + data)
        await writer.drain()
        return True


def troubled(seed: int, share: float) -> Script:
    """A share of tries meets trouble of every kind, never more than twice for one prompt."""
    dice = random.Random(seed)
    troubles = [
        refused(429, retry_after="0.05"),
        refused(429),
        refused(500),
        refused(503),
        Step(kind="drop"),
        Step(kind="cut"),
        Step(kind="empty"),
        Step(kind="malformed"),
        Step(kind="no_choices"),
        Step(kind="html"),
        Step(kind="error_inside", body={"message": "upstream", "code": 502}),
    ]
    ends = [OK, OK, OK, Step(finish_reason="length"), Step(finish_reason="content_filter", text="")]

    def script(body: dict[str, Any], tries: int) -> Step:
        if tries < 2 and dice.random() < share:
            return dice.choice(troubles)
        prompt = body["messages"][-1]["content"]
        end = dice.choice(ends)
        return Step(text=f"answer to {prompt}" if end.text else "", finish_reason=end.finish_reason)

    return script
