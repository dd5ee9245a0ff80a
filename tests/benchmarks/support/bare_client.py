"""The smallest possible client: sockets, no library, no limits; its time is the endpoint's own.

It knows the failures of `endpoint_client.py` and nothing else: a refused request waits as the endpoint asks,
every other failure is retried at once, and retries go before new requests.
"""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import urlsplit

WHOLE = b"data: [DONE]\n\n"


async def answer_all(base_url: str, requests: int, *, concurrency: int, timeout_s: float) -> float:
    """Seconds until every question has its answer."""
    place = urlsplit(base_url)
    assert place.hostname is not None and place.port is not None
    address = place.hostname, place.port
    open_questions: asyncio.PriorityQueue[tuple[int, int]] = asyncio.PriorityQueue()
    for number in range(requests):
        open_questions.put_nowait((1, number))
    left, done = requests, asyncio.Event()

    async def work() -> None:
        nonlocal left
        while True:
            _, number = await open_questions.get()
            try:
                async with asyncio.timeout(timeout_s):
                    wait_s = await try_once(address, f"q{number}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                wait_s = 0.0
            if wait_s is None:
                left -= 1
                if not left:
                    done.set()
            else:
                asyncio.get_running_loop().call_later(wait_s, open_questions.put_nowait, (0, number))

    began = time.monotonic()
    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    await done.wait()
    seconds = time.monotonic() - began
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return seconds


async def try_once(address: tuple[str, int], prompt: str) -> float | None:
    """Ask once; None for a whole answer, else the seconds to wait before the next try."""
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "stream": True}
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"text/event-stream" in head:
            await reader.readuntil(WHOLE)
            return None
        return 1.0 if b"retry-after: 1" in head else 0.0
    finally:
        writer.close()
