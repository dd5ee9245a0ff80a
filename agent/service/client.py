"""A client of the service that needs nothing but the standard library: ask, wait, ask again where that helps.

Submitting the same content twice is one evaluation, so whatever was lost on the way is simply sent again.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Mapping
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import Any, Final
from urllib.parse import urlsplit

from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    Problem,
)

Answer = dict[str, Any]
"""The body of an answer; see the service's OpenAPI page."""

CLIENTS_CHOICE: Final = (
    "shapes",
    "passes",
    "dtype",
    "math",
    "baselines",
    "trials",
    "measure",
    "sanitize",
    "limits",
)
"""Fields of `EvaluationConfig` that a client may set; the others are the operator's."""
PLACE: Final = "/v1/evaluations"
_WAIT_S: Final = 30
_LARGEST_ANSWER: Final = 64 << 20
_LATER: Final = frozenset({408, 429, 502, 503, 504})
_LONGEST_PAUSE_S: Final = 10.0
"""Between two tries, unless the service asks for more."""


class ServiceError(EvaluatorError):
    """The service could not be asked, or did not judge; nothing is scored."""


class Refused(ServiceError):
    """The service will not do what was asked, however often."""

    def __init__(self, status: int, name: str, detail: str) -> None:
        super().__init__(f"the service refused ({status} {name}): {detail}")
        self.status = status
        """HTTP status."""
        self.name = name
        """What stays the same about the reason, such as `config-refused`."""


class EvaluationFailed(ServiceError):
    """The service's machine or evaluator failed; asking again tries again."""


class EvaluationCancelled(ServiceError):
    """Somebody cancelled the evaluation."""


class TimeUp(ServiceError):
    """No verdict within the caller's time; the evaluation goes on, and asking again finds it."""


class ServiceClient:
    """Talks to one service. Usable from any thread."""

    def __init__(self, base_url: str, token: str | None = None, *, request_s: float = 30.0) -> None:
        """`base_url` such as `http://judge:8080`; `request_s` is for one exchange, waiting not counted.

        Raises:
            ConfigError: not an address.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"{base_url!r} is not the address of a service; an example: http://127.0.0.1:8080"
            )
        self._connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._request_s = request_s

    def evaluate(
        self,
        problem: str | Problem,
        candidate: Candidate,
        config: EvaluationConfig | Mapping[str, object] | None = None,
        *,
        fresh: bool = False,
        send_source: bool = False,
        timeout_s: float = 3600.0,
    ) -> Evaluation:
        """Have a candidate judged and wait for the verdict.

        A `Problem` must have the same text there, unless `send_source` sends it along. Only what differs
        from the defaults of an `EvaluationConfig` is sent.

        Raises:
            Refused, EvaluationFailed, EvaluationCancelled, TimeUp: as their names say.
            ConfigError: the config holds what only the operator decides.
        """
        deadline = time.monotonic() + timeout_s
        body = submission(problem, candidate, config, fresh=fresh, send_source=send_source)
        answer = self._ask("POST", PLACE, deadline, body)
        while answer["state"] in ("queued", "running"):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeUp(f"evaluation {answer['id']} is {answer['state']} after {timeout_s:g} s")
            try:
                answer = self.look(answer["id"], wait_s=min(left_s, _WAIT_S), deadline=deadline)
            except Refused as refusal:
                if refusal.status != 404:
                    raise
                answer = self._ask("POST", PLACE, deadline, body)
        return verdict_of(answer)

    def submit(
        self,
        problem: str | Problem,
        candidate: Candidate,
        config: EvaluationConfig | Mapping[str, object] | None = None,
        *,
        fresh: bool = False,
        send_source: bool = False,
    ) -> Answer:
        """Have a candidate judged without waiting for it: `look` at the answer's `id` later.

        Raises:
            Refused, TimeUp, ConfigError: as `evaluate` does.
        """
        body = submission(problem, candidate, config, fresh=fresh, send_source=send_source)
        return self._ask("POST", PLACE, None, body)

    def look(self, evaluation: str, *, wait_s: float = 0.0, deadline: float | None = None) -> Answer:
        """An evaluation as it stands, or once it has ended; `deadline` is of `time.monotonic()`.

        Raises:
            Refused, TimeUp: as their names say.
        """
        path = f"{PLACE}/{evaluation}?wait={wait_s:.3f}"
        return self._ask("GET", path, deadline, wait_s=wait_s)

    def cancel(self, evaluation: str) -> Answer:
        """Cancel an evaluation for everybody who asked for it; raises what `look` raises."""
        return self._ask("DELETE", f"{PLACE}/{evaluation}", None)

    def problems(self) -> list[Answer]:
        """The service's problems: id, sha and shapes; raises what `look` raises."""
        return list(self._ask("GET", "/v1/problems", None)["problems"])

    def _ask(
        self,
        method: str,
        path: str,
        deadline: float | None,
        body: bytes | None = None,
        *,
        wait_s: float = 0.0,
    ) -> Answer:
        """One exchange, repeated until it is answered for good."""
        until = deadline if deadline is not None else time.monotonic() + self._request_s
        tries = 0
        while True:
            tries += 1
            pause_s = min(_LONGEST_PAUSE_S, 0.1 * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)
            try:
                status, headers, data = self._exchange(method, path, body, wait_s=wait_s)
            except ssl.SSLCertVerificationError as error:
                raise ServiceError(f"{self._host} is not who it should be: {error}") from error
            except (OSError, HTTPException) as error:
                trouble = f"{self._host}: {error or type(error).__name__}"
            else:
                if status not in _LATER:
                    return _read(status, data)
                trouble = f"{self._host} answers {status}"
                pause_s = max(pause_s, _retry_after_s(headers.get("Retry-After")))
            if time.monotonic() + pause_s > until:
                raise TimeUp(f"the service could not be asked in time, {tries} tries: {trouble}")
            time.sleep(pause_s)

    def _exchange(
        self, method: str, path: str, body: bytes | None, *, wait_s: float
    ) -> tuple[int, HTTPMessage, bytes]:
        connection = self._connect(self._host, self._port, timeout=self._request_s + wait_s)
        headers = {"Connection": "close"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body, headers)
            response: HTTPResponse = connection.getresponse()
            return response.status, response.headers, _whole(response)
        finally:
            connection.close()


def submission(
    problem: str | Problem,
    candidate: Candidate,
    config: EvaluationConfig | Mapping[str, object] | None,
    *,
    fresh: bool = False,
    send_source: bool = False,
) -> bytes:
    """The body of a submission.

    Raises:
        ConfigError: the config holds what only the operator decides.
    """
    if isinstance(config, EvaluationConfig):
        config = config.model_dump(mode="json", exclude_defaults=True)
    refused = sorted(set(config or {}) - set(CLIENTS_CHOICE))
    if refused:
        raise ConfigError(f"the service's operator decides {', '.join(refused)}; leave that out")
    named: object = problem
    if isinstance(problem, Problem):
        named = {"id": problem.id, "sha": problem.sha} | ({"source": problem.source} if send_source else {})
    body = {
        "problem": named,
        "candidate": candidate.source,
        "backend": candidate.backend,
        "config": dict(config or {}),
        "fresh": fresh,
    }
    return json.dumps(body).encode()


def verdict_of(answer: Answer) -> Evaluation:
    """The verdict in an answer about an evaluation that has ended.

    Raises:
        EvaluationFailed, EvaluationCancelled: there is none.
    """
    match answer["state"]:
        case "finished":
            return Evaluation.model_validate(answer["evaluation"])
        case "failed":
            failure = answer["failure"]
            raise EvaluationFailed(f"the service could not judge ({failure['kind']}): {failure['message']}")
        case "cancelled":
            raise EvaluationCancelled(f"evaluation {answer['id']} was cancelled")
        case state:
            raise ServiceError(f"the service says {state!r} of an evaluation; upgrade this client")


def _whole(response: HTTPResponse) -> bytes:
    """The body of an answer; a bounded read alone does not notice that the connection broke."""
    data = response.read(_LARGEST_ANSWER)
    announced = response.headers.get("Content-Length", "")
    is_whole = len(data) == int(announced) if announced.isdecimal() else response.chunked
    if not is_whole:
        raise IncompleteRead(data)
    return data


def _read(status: int, data: bytes) -> Answer:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise Refused(status, "no-json", data[:200].decode("utf-8", "replace"))
    if status >= 400:
        name = str(answer.get("type", "")).rpartition(":")[2]
        raise Refused(status, name, str(answer.get("detail", "")))
    return answer


def _retry_after_s(value: str | None) -> float:
    return float(value) if value and value.isdecimal() and len(value) < 6 else 0.0
