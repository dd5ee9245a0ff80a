"""The Batch API through the real client, with kills, expiry and partial failures."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.messages import Completion, CompletionRequest, Message, ProviderError, Sampling
from agent.providers.endpoint import Endpoint
from agent.providers.openai_batch import BatchJobs, BatchLimits, OpenAIBatchProvider
from agent.providers.prices import Price, PriceTable

PRICES = PriceTable((Price(("m",), Decimal(2), Decimal(1), Decimal(8), batch=Decimal("0.5"), as_of="now"),))


@dataclass
class BatchEndpoint:
    """Files and batches, in memory; `answer` says what becomes of each line, `end` how a batch ends."""

    answer: Callable[[dict[str, Any], int], dict[str, Any] | None]
    end: Callable[[int], str] = lambda number: "completed"
    polls_before_end: int = 1
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    fail_after_create: bool = False
    errors: list[dict[str, str]] = field(default_factory=list)

    def post_file(self, body: bytes, kind: str) -> dict[str, Any]:
        boundary = re.search(r"boundary=(\S+)", kind)
        assert boundary is not None
        part = next(part for part in body.split(f"--{boundary[1]}".encode()) if b"filename=" in part)
        name = f"file-{len(self.files)}"
        self.files[name] = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        return {
            "id": name,
            "object": "file",
            "bytes": 1,
            "created_at": 1,
            "filename": "f",
            "purpose": "batch",
        }

    def post_batch(self, body: dict[str, Any]) -> dict[str, Any]:
        name = f"batch-{len(self.batches)}"
        for line in self.files[body["input_file_id"]].splitlines():
            self.asked[json.loads(line)["custom_id"]] += 1
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            "polls": 0,
            "created_at": 1,
            "endpoint": body["endpoint"],
            "completion_window": body["completion_window"],
            "input_file_id": body["input_file_id"],
            "metadata": body["metadata"],
        }
        return self.batches[name]

    def get_batch(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        batch["polls"] += 1
        if batch["polls"] >= self.polls_before_end and batch["status"] == "in_progress":
            number = int(name.partition("-")[2])
            batch["status"] = self.end(number)
            if batch["status"] == "failed":
                batch["errors"] = {"object": "list", "data": self.errors}
            else:
                self.finish(batch, number)
        return batch

    def finish(self, batch: dict[str, Any], number: int) -> None:
        good, bad = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            asked = json.loads(line)
            answer = self.answer(asked["body"], number)
            if answer is not None:
                out = {"id": "r", "custom_id": asked["custom_id"], "response": answer, "error": None}
                (good if answer["status_code"] == 200 else bad).append(json.dumps(out))
        for kind, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                name = f"file-{len(self.files)}"
                self.files[name] = "\n".join(lines).encode() + b"\n"
                batch[kind] = name


def reply(body: dict[str, Any], number: int) -> dict[str, Any]:
    """A good answer."""
    message = {"role": "assistant", "content": f"answer to {body['messages'][0]['content']}"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"status_code": 200, "body": {"id": "x", "model": "m", "choices": [choice], "usage": usage}}


def error(status: int, message: str) -> dict[str, Any]:
    return {"status_code": status, "body": {"error": {"message": message}}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: BatchEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/files":
            self.send(self.endpoint.post_file(body, self.headers["Content-Type"]))
            return
        created = self.endpoint.post_batch(json.loads(body))
        if self.endpoint.fail_after_create:
            self.send({"error": {"message": "killed before it heard"}}, 400)
        else:
            self.send(created)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/v1/batches":
            batches = list(self.endpoint.batches.values())
            self.send({"object": "list", "data": batches, "has_more": False})
        elif path.startswith("/v1/batches/"):
            self.send(self.endpoint.get_batch(path.rpartition("/")[2]))
        else:
            self.raw(self.endpoint.files[path.split("/")[3]], "application/octet-stream")

    def send(self, value: object, status: int = 200) -> None:
        self.raw(json.dumps(value).encode(), "application/json", status)

    def raw(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def serve() -> Iterator[Callable[[BatchEndpoint], Endpoint]]:
    servers: list[ThreadingHTTPServer] = []

    def start(endpoint: BatchEndpoint) -> Endpoint:
        handler = type("Bound", (Handler,), {"endpoint": endpoint})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return Endpoint(name="bulk", base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


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
    assert (progress.is_done, progress.running, progress.statuses) == (False, 1, ("in_progress",))
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


def test_behind_the_provider_seam(serve: Serve, tmp_path: Path) -> None:
    def answer(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        refused = body["messages"][0]["content"] == "q2"
        return error(400, "too long") if refused else reply(body, number)

    endpoint = BatchEndpoint(answer, polls_before_end=2)
    at = serve(endpoint)

    def run(scenario: Callable[[OpenAIBatchProvider], Coroutine[Any, Any, Any]]) -> Any:
        async def whole() -> Any:
            provider = OpenAIBatchProvider(BatchJobs(tmp_path, at), "bulk", gather_s=0.05, poll_s=0.02)
            try:
                return await scenario(provider)
            finally:
                await provider.close()

        return asyncio.run(whole())

    async def killed(provider: OpenAIBatchProvider) -> None:
        asked = [asyncio.create_task(provider.complete(request)) for request in requests(3)]
        while not endpoint.batches:
            await asyncio.sleep(0.01)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    async def whole(provider: OpenAIBatchProvider) -> list[Completion | BaseException]:
        return await asyncio.gather(
            *(provider.complete(request) for request in requests(3)), return_exceptions=True
        )

    run(killed)
    first, second, third = run(whole)
    assert isinstance(first, Completion) and isinstance(second, Completion)
    assert (first.text, second.text) == ("answer to q0", "answer to q1")
    assert isinstance(third, ProviderError)
    assert len(endpoint.batches) == 1


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
