"""The Batch API through the real client, with kills, expiry and partial failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.providers.batch_api.batch_jobs import BatchJobs, BatchLimits
from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.prices import PriceTable, TablePrice
from kernelwright.agent.records.messages import CompletionRequest, Message, ProviderError, Sampling
from tests.agent.providers.bulk import BatchEndpoint, error, reply, serving

PRICES = PriceTable(
    (TablePrice(models=("m",), input=Decimal(2), cached=Decimal(1), output=Decimal(8), batch=Decimal("0.5")),)
)


@pytest.fixture
def serve() -> Iterator[Callable[[BatchEndpoint], Endpoint]]:
    with ExitStack() as stack:

        def start(endpoint: BatchEndpoint) -> Endpoint:
            return Endpoint(name="bulk", base_url=stack.enter_context(serving(endpoint)), api_key="k")

        yield start


Serve = Callable[[BatchEndpoint], Endpoint]


def requests(count: int, model: str = "m") -> list[CompletionRequest]:
    return [
        CompletionRequest(
            model=model,
            messages=(Message(role="user", content=f"q{number}"),),
            sampling=Sampling(temperature=0.5, extra_body={"top_k": 3}),
            problem="p",
            backend="cuda",
            sample=number,
        )
        for number in range(count)
    ]


def advance(jobs: BatchJobs, times: int = 1) -> Any:
    async def several() -> Any:
        try:
            for _ in range(times):
                progress = await jobs.advance()
        finally:
            await jobs.close()
        return progress

    return asyncio.run(several())


def texts(jobs: BatchJobs) -> list[str]:
    return [result.completion.text for _, result in jobs.results() if result.completion]


def test_requests_come_back_answered_and_priced(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(reply)
    jobs = BatchJobs(tmp_path, serve(endpoint), prices=PRICES)
    jobs.submit(requests(5))
    jobs.submit(requests(5))
    progress = advance(jobs)
    assert (progress.is_done, progress.answered) == (True, 5)
    assert texts(jobs) == [f"answer to q{number}" for number in range(5)]
    first = jobs.results()[0][1].completion
    assert first is not None
    assert (first.cost_usd, first.provider, first.finish_reason) == (0.003, "bulk", "stop")
    sent = json.loads(endpoint.files["file-0"].splitlines()[0])
    assert sent["body"] == {
        "model": "m",
        "messages": [{"role": "user", "content": "q0"}],
        "temperature": 0.5,
        "top_k": 3,
    }


def test_another_process_goes_on_after_days(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(reply, polls_before_end=3)
    at = serve(endpoint)
    first = BatchJobs(tmp_path, at)
    first.submit(requests(3))
    progress = advance(first)
    assert (progress.is_done, progress.statuses) == (False, ("in_progress",))
    second = BatchJobs(tmp_path, at)
    second.submit(requests(3))
    assert advance(second, times=2).is_done
    assert set(endpoint.asked.values()) == {1}


def test_a_batch_created_by_a_process_that_died_is_found_again(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(reply, fail_after_create=True)
    at = serve(endpoint)
    jobs = BatchJobs(tmp_path, at)
    jobs.submit(requests(3))
    with pytest.raises(ProviderError, match="killed before it heard"):
        advance(jobs)
    endpoint.fail_after_create = False
    again = BatchJobs(tmp_path, at)
    assert advance(again).is_done
    assert len(endpoint.batches) == 1
    assert set(endpoint.asked.values()) == {1}


def test_what_a_kill_left_half_written_is_survived(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(reply, polls_before_end=2)
    at = serve(endpoint)
    jobs = BatchJobs(tmp_path, at)
    jobs.submit(requests(4))
    advance(jobs)
    state = (tmp_path / "batches.json").read_bytes()
    advance(BatchJobs(tmp_path, at))
    # Killed while results were written: the last line is torn, and the batch still counts as running.
    results = (tmp_path / "results.jsonl").read_bytes()
    (tmp_path / "results.jsonl").write_bytes(results[: len(results) - 30])
    (tmp_path / "batches.json").write_bytes(state)
    again = BatchJobs(tmp_path, at)
    assert again.progress.answered == 3
    assert advance(again).is_done
    assert sorted(texts(again)) == [f"answer to q{number}" for number in range(4)]
    assert (tmp_path / "results.jsonl").read_bytes().count(b"\n") == 4
    assert set(endpoint.asked.values()) == {1}


def test_what_an_expired_batch_left_open_goes_into_the_next(serve: Serve, tmp_path: Path) -> None:
    def answer(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        late = number == 0 and body["messages"][0]["content"] in ("q1", "q3")
        return None if late else reply(body, number)

    endpoint = BatchEndpoint(answer, end=lambda number: "expired" if number == 0 else "completed")
    jobs = BatchJobs(tmp_path, serve(endpoint))
    jobs.submit(requests(4))
    assert advance(jobs).answered == 2
    assert advance(jobs).is_done
    assert sorted(endpoint.asked.values()) == [1, 1, 2, 2]
    assert len(texts(jobs)) == 4


def test_single_failures_are_asked_again_or_told(serve: Serve, tmp_path: Path) -> None:
    def answer(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        match body["messages"][0]["content"], number:
            case "q1", 0:
                return error(500, "oops")
            case "q2", 0:
                return {"status_code": 200, "body": {"choices": []}}
            case "q3", _:
                return error(400, "too long")
            case _:
                return reply(body, number)

    jobs = BatchJobs(tmp_path, serve(BatchEndpoint(answer)))
    jobs.submit(requests(4))
    progress = advance(jobs, times=2)
    assert (progress.answered, progress.failed, progress.is_done) == (3, 1, True)
    assert [result.error for _, result in jobs.results() if result.error] == [
        "the request was refused (400): too long"
    ]


def test_a_bound_on_replies_is_renamed_for_models_that_ask_for_it(serve: Serve, tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any], number: int) -> dict[str, Any]:
        bodies.append(body)
        if body["model"] == "thinker" and "max_tokens" in body:
            return error(400, "Unsupported parameter: use 'max_completion_tokens' instead.")
        return reply(body, number)

    endpoint = BatchEndpoint(answer)
    at = serve(endpoint)
    jobs = BatchJobs(tmp_path, at)
    asked = [*requests(3, model="thinker"), *requests(1)]
    bounded = [one.model_copy(update={"sampling": Sampling(max_tokens=100)}) for one in asked]
    jobs.submit(bounded)
    assert advance(jobs).answered == 1
    again = BatchJobs(tmp_path, at)
    assert (advance(again).answered, again.progress.is_done) == (4, True)
    assert [len(batch.keys) for batch in again._state.batches.values()] == [3, 1, 3]
    sent = [{name: body[name] for name in body if name.startswith("max")} for body in bodies]
    assert sent == [{"max_tokens": 100}] * 4 + [{"max_completion_tokens": 100}] * 3


def test_a_request_that_is_never_answered_is_given_up(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(lambda body, number: None)
    jobs = BatchJobs(tmp_path, serve(endpoint), limits=BatchLimits(max_rounds=2))
    jobs.submit(requests(1))
    progress = advance(jobs, times=3)
    assert (progress.failed, progress.is_done) == (1, True)
    assert set(endpoint.asked.values()) == {2}


def test_large_submissions_are_split(serve: Serve, tmp_path: Path) -> None:
    endpoint = BatchEndpoint(reply)
    jobs = BatchJobs(tmp_path, serve(endpoint), limits=BatchLimits(max_requests=3, max_bytes=10_000))
    jobs.submit([*requests(7), *requests(2, model="other")])
    assert advance(jobs).is_done
    assert [endpoint.files[batch["input_file_id"]].count(b"\n") for batch in endpoint.batches.values()] == [
        3,
        3,
        1,
        2,
    ]


def test_a_batch_refused_as_a_whole(serve: Serve, tmp_path: Path) -> None:
    later = {"code": "token_limit_exceeded", "message": "enqueued too much"}
    endpoint = BatchEndpoint(
        reply, end=lambda number: "failed" if number < 6 else "completed", errors=[later]
    )
    jobs = BatchJobs(tmp_path / "later", serve(endpoint))
    jobs.submit(requests(2))
    assert advance(jobs, times=7).is_done
    bad = BatchEndpoint(
        reply, end=lambda number: "failed", errors=[{"code": "invalid_model", "message": "no such model"}]
    )
    jobs = BatchJobs(tmp_path / "bad", serve(bad))
    jobs.submit(requests(2))
    with pytest.raises(ProviderError, match="invalid_model: no such model") as caught:
        advance(jobs)
    assert caught.value.fatal


def test_an_endpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    jobs = BatchJobs(
        tmp_path, Endpoint(name="gone", base_url="http://127.0.0.1:9/v1"), limits=BatchLimits(max_retries=0)
    )
    jobs.submit(requests(1))
    with pytest.raises(ProviderError, match="connection refused; check the URL"):
        advance(jobs)
    (tmp_path / "batches.json").write_text("{")
    with pytest.raises(ProviderError, match="cannot read the bulk jobs"):
        BatchJobs(tmp_path, Endpoint())
