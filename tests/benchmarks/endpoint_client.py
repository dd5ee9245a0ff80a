"""Sends a failing endpoint thousands of requests, and compares the time with what that endpoint allows.

    python tests/benchmarks/endpoint_client.py
    python tests/benchmarks/endpoint_client.py --requests 5000 --concurrency 256

The endpoint runs in a process of its own. Of its answers a fifth are 429s (alone, and in bursts that refuse
everybody), 5xx, dropped, hanging, cut or malformed ones; every question gets its answer at the third try at
the latest, bursts apart. The ideal time is what the barest client takes for the same questions at the same
concurrency, measured just before. No client reaches the bound, the sum of all delays shared by so many at
once: who begins last may hang twice, and nobody else can help.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.provider_kind import ClientTerms
from kernelwright.agent.providers.rate_limits import RateLimits
from kernelwright.agent.records.messages import Completion, CompletionRequest, Message
from tests.agent.providers.scripted import ScriptedServer, Step, refused
from tests.benchmarks.support.bare_client import answer_all

PATIENCE = 3.0
"""RetryPolicy of the client, as a multiple of a reply's mean time; what a hanging answer costs."""
TROUBLES = (
    refused(429, Retry_After="1"),
    refused(500),
    refused(503),
    Step(kind="drop"),
    Step(kind="hang"),
    Step(kind="cut"),
    Step(kind="malformed"),
    Step(kind="html", status=502),
)
ENDS = (
    *[Step()] * 6,
    Step(finish_reason="length"),
    Step(finish_reason="content_filter", text="I cannot help with that."),
)
SHARE = 0.2


def answer(prompt: str, tries: int, reply_s: float) -> Step:
    """What the endpoint says to the n-th asking of a question; the same in every run."""
    dice = random.Random(f"{prompt}/{tries}")
    if tries < 2 and dice.random() < SHARE:
        step = dice.choice(TROUBLES)
        slow = step.kind in ("cut", "malformed", "html")
        return Step(**{**vars_of(step), "delay_s": reply_s if slow else 0.1})
    step = dice.choice(ENDS)
    delay_s = reply_s * dice.uniform(0.5, 1.5)
    return Step(**{**vars_of(step), "text": f"{step.text} {prompt}", "delay_s": delay_s})


def vars_of(step: Step) -> dict[str, Any]:
    """A step's fields."""
    return {name: getattr(step, name) for name in Step.__dataclass_fields__}


def bound_s(requests: int, concurrency: int, reply_s: float) -> float:
    """Seconds of delay in all tries, shared by so many at once."""
    total = 0.0
    for number in range(requests):
        for tries in range(3):
            step = answer(f"q{number}", tries, reply_s)
            total += PATIENCE * reply_s if step.kind == "hang" else step.delay_s
            if step.kind == "ok":
                break
    return total / concurrency


async def serve(reply_s: float) -> None:
    """Answer until standard input ends, then print what was answered."""
    # Clients that gave up are part of the game, and no news.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    began = time.monotonic()
    bursts = Counter[str]()

    def script(body: dict[str, Any], tries: int) -> Step:
        prompt = body["messages"][-1]["content"]
        if (time.monotonic() - began) % 15.0 > 14.7:
            bursts[prompt] += 1
            return refused(429, Retry_After="1")
        return answer(prompt, tries - bursts[prompt], reply_s)

    async with ScriptedServer(script) as server:
        server.keep_requests = False
        print(server.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        counts = Counter(server.answered.values())
        told = {"answered": counts, "tries": server.tries.total(), "most": server.most_in_flight}
        print(json.dumps({**told, "bursts": bursts.total()}), flush=True)


async def ask(base_url: str, options: argparse.Namespace) -> list[Completion]:
    """Every question at once, as far as the provider lets them."""
    provider = OpenAIProvider(
        Endpoint(base_url=base_url, api_key="k"),
        ClientTerms(
            patience=RetryPolicy(timeout_s=PATIENCE * options.reply_s, max_retries=12, longest_wait_s=2.0),
            limits=RateLimits(max_concurrency=options.concurrency),
        ),
    )
    requests = [
        CompletionRequest(
            model="m", messages=(Message(role="user", content=f"q{number}"),), problem="p", backend="b"
        )
        for number in range(options.requests)
    ]
    sizes: list[float] = []

    async def one(request: CompletionRequest) -> Completion:
        completion = await provider.complete(request)
        sizes.append(resident_mib())
        return completion

    answers = await asyncio.gather(*map(one, requests))
    await provider.close()
    quarter = len(sizes) // 4
    print(f"memory        {sizes[quarter]:.0f} MiB after a quarter, {sizes[-1]:.0f} MiB at the end")
    return answers


def resident_mib() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def main(arguments: Sequence[str]) -> int:
    """Print the ratio; 1 when a question was lost or answered twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--reply-s", type=float, default=3.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        asyncio.run(serve(options.reply_s))
        return 0
    with endpoint(options.reply_s) as (base_url, _):
        patience_s = PATIENCE * options.reply_s
        ideal_s = asyncio.run(
            answer_all(base_url, options.requests, concurrency=options.concurrency, timeout_s=patience_s)
        )
    with endpoint(options.reply_s) as (base_url, seen):
        began, cpu = time.monotonic(), time.process_time()
        answers = asyncio.run(ask(base_url, options))
        seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu
    bound = bound_s(options.requests, options.concurrency, options.reply_s)
    right = sum(reply.text.endswith(f" q{number}") for number, reply in enumerate(answers))
    print(f"server        {seen['tries']} tries, {seen['bursts']} of them in bursts, {seen['most']} at once")
    print(f"answered      {seen['answered']} (times: questions), {right} replies are whole and in place")
    print(f"time          {seconds:.1f} s, ideal {ideal_s:.1f} s, ratio {seconds / ideal_s:.2f}")
    print(f"bound         {bound:.1f} s, which the barest client exceeds {ideal_s / bound:.2f} times")
    print(f"processor     {cpu_s:.1f} s")
    return 0 if right == options.requests and seen["answered"] == {"1": options.requests} else 1


@contextmanager
def endpoint(reply_s: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """A fresh endpoint's URL, and what it says it saw, filled in when the block ends."""
    command = [sys.executable, __file__, "--serve", "--reply-s", str(reply_s)]
    seen: dict[str, Any] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        yield server.stdout.readline().strip(), seen
        server.stdin.close()
        seen.update(json.loads(server.stdout.readline()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
