"""A client of the service: submit, wait, and ask again where that helps. Importing it imports no torch.

Submitting the same content twice is one evaluation, so a lost request is simply sent again.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

import httpx2

from kernelwright.agent.evaluation.policy import ANSWER_BYTES, CLIENT_KEPT, CLIENT_PAUSE_S, CLIENT_WAIT_S
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
    "counters",
    "limits",
)
"""Fields of `EvaluationConfig` that a client may set; the others are the operator's."""
PLACE: Final = "/v1/evaluations"
_LATER: Final = frozenset({408, 429, 502, 503, 504})


class ServiceError(EvaluatorError):
    """The service did not answer, or has no result; nothing is scored."""


class ServiceBusy(ServiceError):
    """The service asks for patience: its queue is full, it ends, or whoever stands before it says so."""

    def __init__(self, where: str, status: int, name: str, retry_after_s: float) -> None:
        super().__init__(f"{where} answers {status} {name}".rstrip())
        self.name = name
        """Stable name of the reason, such as `queue-full` or `draining`; empty where there is none."""
        self.retry_after_s = retry_after_s


class ServiceUnreachable(ServiceError):
    """No connection, or one that broke off."""

    retry_after_s = 0.0


class ServiceRefusal(ServiceError):
    """The service refuses the request; repeating it does not help."""

    def __init__(self, where: str, status: int, name: str, detail: str) -> None:
        super().__init__(f"{where} refused ({status} {name}): {detail}")
        self.status = status
        """HTTP status."""
        self.name = name
        """Stable name of the reason, such as `config-refused`."""


class EvaluationFailed(ServiceError):
    """The service's machine or evaluator failed; a new submission tries again."""


class EvaluationCancelled(ServiceError):
    """A client cancelled the evaluation."""


class TimeUp(ServiceError):
    """No result in time; the evaluation continues, and a new submission finds it."""


class ServiceClient:
    """Talks to one service. Usable from any thread. In a `with` block it keeps connections open."""

    def __init__(self, base_url: str, token: str | None = None, *, request_s: float = 30.0) -> None:
        """`base_url` such as `http://gpu-host:8080`; `request_s` is for one exchange, waiting not counted.

        Raises ConfigError: not an address.
        """
        try:
            self._url = httpx2.URL(base_url)
        except httpx2.InvalidURL:
            self._url = httpx2.URL()
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise ConfigError(
                f"{base_url!r} is not the address of a service; an example: http://127.0.0.1:8080"
            )
        self._trust = ssl.create_default_context() if self._url.scheme == "https" else False
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._request_s = request_s
        self._kept: httpx2.Client | None = None

    def __enter__(self) -> Self:
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=CLIENT_KEPT, keepalive_expiry=5
        )
        self._kept = httpx2.Client(verify=self._trust, trust_env=False, limits=limits)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    @property
    def url(self) -> str:
        """Its address."""
        return str(self._url).rstrip("/")

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
        """Evaluate a candidate and wait for the result.

        A `Problem` must have the same text there, unless `send_source` sends it along. Of an
        `EvaluationConfig` only fields that differ from the defaults are sent.

        Raises:
            ServiceRefusal, EvaluationFailed, EvaluationCancelled, TimeUp: as their names say.
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
                answer = self.look(answer["id"], wait_s=min(left_s, CLIENT_WAIT_S), deadline=deadline)
            except ServiceRefusal as refusal:
                if refusal.status != 404:
                    raise
                answer = self._ask("POST", PLACE, deadline, body)
        return result_of(answer)

    def submit(
        self,
        problem: str | Problem,
        candidate: Candidate,
        config: EvaluationConfig | Mapping[str, object] | None = None,
        *,
        fresh: bool = False,
        send_source: bool = False,
    ) -> Answer:
        """Submit a candidate without waiting; `look` at the answer's `id` later. Raises as `evaluate`."""
        body = submission(problem, candidate, config, fresh=fresh, send_source=send_source)
        return self._ask("POST", PLACE, None, body)

    def submit_all(self, submissions: Sequence[bytes]) -> list[Answer]:
        """Submit several bodies of `submission` in one request; their answers, in order.

        Each has `status`, `body`, which may refuse it, and `retry_after_s`. At most `BATCH` and the service's
        largest body go into one request. Raises what `look` raises.
        """
        body = b'{"submissions": [%b]}' % b", ".join(submissions)
        return list(self._ask("POST", f"{PLACE}/batch", None, body)["answers"])

    def look(self, evaluation: str, *, wait_s: float = 0.0, deadline: float | None = None) -> Answer:
        """The state of an evaluation, or its end. Raises ServiceRefusal, or TimeUp after `deadline`, by
        `time.monotonic()`.
        """
        path = f"{PLACE}/{evaluation}?wait={wait_s:.3f}"
        return self._ask("GET", path, deadline, wait_s=wait_s)

    def facts(self) -> Answer:
        """The `ServiceFacts` of the service; raises what `once` raises."""
        return self.once("GET", "/v1/service")

    def cancel(self, evaluation: str) -> Answer:
        """Withdraw this token's submission; what no token wants ends. Raises what `look` raises."""
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
        """One request, repeated until it has an answer."""
        until = deadline if deadline is not None else time.monotonic() + self._request_s
        tries = 0
        while True:
            tries += 1
            pause_s = backoff_s(tries)
            try:
                return self.once(method, path, body, wait_s=wait_s)
            except (ServiceUnreachable, ServiceBusy) as error:
                trouble = error
                pause_s = max(pause_s, error.retry_after_s)
            if time.monotonic() + pause_s > until:
                raise TimeUp(f"the service did not answer in time, {tries} tries: {trouble}") from trouble
            time.sleep(pause_s)

    def once(self, method: str, path: str, body: bytes | None = None, *, wait_s: float = 0.0) -> Answer:
        """One request, sent once; `wait_s` is what the service was asked to wait.

        Raises:
            ServiceUnreachable, ServiceBusy: sending it again may help.
            ServiceRefusal, ServiceError: sending it again does not help.
        """
        try:
            response, data = self._exchange(method, path, body, wait_s=wait_s)
        except httpx2.TransportError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ServiceError(
                    f"{self.url} has no valid certificate: {error}; SSL_CERT_FILE names a file of yours"
                ) from error
            raise ServiceUnreachable(f"{self.url}: {error or type(error).__name__}") from error
        except RuntimeError as error:
            # The kept connections are closed: this process is ending.
            raise ServiceUnreachable(f"{self.url}: {error}") from error
        status, answer = response.status_code, _parse(data)
        name = str((answer or {}).get("type", "")).rpartition(":")[2]
        if status in _LATER:
            pause = response.headers.get("Retry-After", "")
            retry_after_s = float(pause) if pause.isdecimal() and len(pause) < 6 else 0.0
            raise ServiceBusy(self.url, status, name, retry_after_s)
        if answer is None:
            raise ServiceRefusal(self.url, status, "no-json", data[:200].decode("utf-8", "replace"))
        if status >= 400:
            raise ServiceRefusal(self.url, status, name, str(answer.get("detail", "")))
        return answer

    def _exchange(
        self, method: str, path: str, body: bytes | None, *, wait_s: float
    ) -> tuple[httpx2.Response, bytes]:
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        with ExitStack() as stack:
            # Without a `with` block a connection for each request: a kept one would have to be closed.
            client = self._kept or stack.enter_context(httpx2.Client(verify=self._trust, trust_env=False))
            response = stack.enter_context(
                client.stream(
                    method,
                    f"{self.url}{path}",
                    content=body,
                    headers=headers,
                    timeout=httpx2.Timeout(self._request_s + wait_s, connect=self._request_s),
                )
            )
            data = bytearray()
            for piece in response.iter_bytes():
                data += piece
                if len(data) > ANSWER_BYTES:
                    raise ServiceError(f"{self.url} answers with more than {ANSWER_BYTES} bytes")
            return response, bytes(data)


def backoff_s(tries: int) -> float:
    """The pause after so many tries, at random within bounds that double."""
    longest = min(CLIENT_PAUSE_S, 0.1 * 2.0 ** min(tries, 10))
    return longest * random.uniform(0.5, 1.0)


def submission(
    problem: str | Problem,
    candidate: Candidate,
    config: EvaluationConfig | Mapping[str, object] | None,
    *,
    fresh: bool = False,
    only_known: bool = False,
    send_source: bool = False,
) -> bytes:
    """The body of a submission; raises ConfigError if the config holds what only the operator decides."""
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
        "only_known": only_known,
    }
    return json.dumps(body).encode()


def result_of(answer: Answer) -> Evaluation:
    """The result of an evaluation that ended; raises EvaluationFailed or EvaluationCancelled."""
    match answer["state"]:
        case "finished":
            return Evaluation.model_validate(answer["evaluation"])
        case "failed":
            failure = answer["failure"]
            raise EvaluationFailed(f"the service failed ({failure['kind']}): {failure['message']}")
        case "cancelled":
            raise EvaluationCancelled(f"evaluation {answer['id']} was cancelled")
        case state:
            raise ServiceError(f"the service says {state!r} of an evaluation; upgrade this client")


def _parse(data: bytes) -> Answer | None:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
