"""The reported cost of a run is the sum over its replies, to the cent; bounds hold to one reply."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from kernelwright.agent.records.messages import Usage
from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command, Quick
from tests.agent.cli.test_live_endpoint import served
from tests.agent.providers.scripted import Step

PRICES = '[[price]]\nmodels = ["good-*"]\ninput = "1.75"\ncached = "0.175"\noutput = "14.03"\n'


def step(body: dict[str, Any], tries: int) -> Step:
    """A reply without code; what it used differs from try to try."""
    prompt, completion, cached = 1000 + 37 * tries, 11 + 97 * (tries % 13), 7 * tries
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return Step(text="No code.", usage=usage)


def exact(usage: Usage) -> Decimal:
    """The cost of a reply by the table above, in dollars."""
    fresh = usage.prompt_tokens - usage.cached_tokens
    millionths = fresh * Decimal("1.75") + usage.cached_tokens * Decimal("0.175")
    return (millionths + usage.completion_tokens * Decimal("14.03")) / 1_000_000


def test_totals_are_sums_of_usages_and_bounds_hold_to_one_reply(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    (tmp_path / "run.toml").write_text(f'strategy = "sample"\nprices = ["{tmp_path / "prices.toml"}"]\n')
    policy = quick[quick.index("--shapes") :]
    bounds: tuple[tuple[str, ...], ...] = ((), ("--max-cost", "0.05"), ("--max-tokens", "20000"))
    with served(step) as server:
        place = ("--base-url", server.base_url, "-m", "good-model", "--config", f"{tmp_path}/run.toml")
        common = (quick[0], "-b", "cpp", *policy, *place, "-n", "60", "--fresh", "--json-lines", "-c", "7")
        said = [json.loads(kernelwright("run", *common, *bound).stdout.splitlines()[-1]) for bound in bounds]
    archive = Workspace(tmp_path).archive()
    runs = [[attempt.completion for attempt in archive.attempts(run)] for run in archive.runs()]
    for lines, closed in zip(runs, said, strict=True):
        total = sum((exact(line.usage) for line in lines), Decimal(0))
        told = Decimal(str(closed["summary"]["cost_usd"]))
        assert abs(told - total) < Decimal("0.00001")
        assert closed["summary"]["attempts"] == len(lines)
    whole, money, tokens = runs
    assert (len(whole), [one["summary"]["end"] for one in said]) == (60, ["complete", "budget", "budget"])
    spent, most = sum(exact(line.usage) for line in money), max(exact(line.usage) for line in money)
    assert Decimal("0.05") <= spent < Decimal("0.05") + most
    used = [line.usage.prompt_tokens + line.usage.completion_tokens for line in tokens]
    assert 20_000 <= sum(used) < 20_000 + max(used)
