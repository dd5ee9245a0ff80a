"""An endpoint of the Batch API on loopback, with everything that real ones do to a batch."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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


@contextmanager
def serving(endpoint: BatchEndpoint) -> Iterator[str]:
    """The endpoint's base URL, for as long as it is served."""
    handler = type("Bound", (Handler,), {"endpoint": endpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
