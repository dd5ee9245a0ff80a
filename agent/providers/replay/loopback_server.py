"""A small threaded HTTP server around a function: JSON in, JSON or events out, errors shaped as OpenAI's."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from kernelwright.agent.providers.policy import LARGEST_REQUEST

_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    def json(self) -> Mapping[str, object]:
        """The body as a JSON object; raises HttpFailure 400 where it is none."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise HttpFailure(400, f"the request body is not JSON: {error}", code="invalid_json") from error
        if not isinstance(value, dict):
            raise HttpFailure(400, "the request body is not a JSON object", code="invalid_json")
        return value


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One HTTP response: a JSON body, or the data of server-sent events."""

    body: object = None
    events: tuple[str, ...] | None = None


class HttpFailure(Exception):
    """An answer other than 200, in the form OpenAI's endpoints use."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class LoopbackServer:
    """Answers requests with a function while it is entered, each connection in a thread of its own."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse], *, port: int = 0) -> None:
        self._answer = answer
        self._port = port
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """Its address; the port is known once it has started."""
        port = self._server.server_address[1] if self._server else self._port
        return f"http://{_HOST}:{port}"

    def __enter__(self) -> Self:
        """Listen; raises OSError where the address is taken."""
        self._server = _Server((_HOST, self._port), _Handler)
        self._server.answer = self._answer
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop listening, and close every connection."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.close_connections()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    """Connections that may wait to be accepted; with the default of 5, bursts of clients wait for seconds."""
    answer: Callable[[HttpRequest], HttpResponse]

    def __init__(self, *args: Any) -> None:  # Any: passed on to the standard library
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(*args)

    def get_request(self) -> tuple[socket.socket, Any]:  # Any: the standard library's address type
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:  # Any: as the standard library declares it
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        with self._lock:
            connections = tuple(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # Any: as the standard library has it
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # Any: as the standard library has it
        """Requests are not logged: the client's records say more."""

    def do_GET(self) -> None:
        try:
            answer = self.server.answer(self._question())
        except HttpFailure as failure:
            self._fail(failure)
            return
        if answer.events is None:
            self._send(200, json.dumps(answer.body).encode(), {})
        else:
            events = "".join(f"data: {event}\n\n" for event in answer.events)
            headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
            self._send(200, events.encode(), headers)

    def do_POST(self) -> None:
        self.do_GET()

    def _question(self) -> HttpRequest:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > LARGEST_REQUEST:
            self.close_connection = True
            raise HttpFailure(413, f"the request body must have a length of at most {LARGEST_REQUEST} bytes")
        return HttpRequest(
            method=self.command,
            path=self.path.partition("?")[0],
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(length)),
        )

    def _fail(self, failure: HttpFailure) -> None:
        kind = "rate_limit_error" if failure.status == 429 else "invalid_request_error"
        error = {"message": str(failure), "type": kind, "param": None, "code": failure.code}
        headers = {} if failure.retry_after_s is None else {"Retry-After": str(failure.retry_after_s)}
        self._send(failure.status, json.dumps({"error": error}).encode(), headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
