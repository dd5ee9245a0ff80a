"""The HTTP interface over real connections, with a stand-in for the evaluator."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.service.middleware import LOOPBACK_NAMES
from kernelwright.agent.service.policy import RequestBounds
from kernelwright.evaluator import EvaluationConfig, Limits
from tests.agent.service.standin import PROBLEM, Running, StandIn, source

JSON = {"Content-Type": "application/json"}
BOUNDS = RequestBounds(body_bytes=100_000, body_s=1.0)


def ask(
    running: Running, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body of one exchange; a `dict` is sent as JSON, bytes as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    sent = json.dumps(body).encode() if isinstance(body, dict) else body
    given = (JSON if body is not None else {}) | (headers or {})
    if running.token and "Authorization" not in given:
        given["Authorization"] = f"Bearer {running.token}"
    connection.request(method, path, sent, given)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    found = {name.lower(): value for name, value in answer.getheaders()}
    is_json = "json" in found.get("content-type", "")
    return answer.status, found, json.loads(text, parse_constant=refuse_constant) if is_json else text


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def submission(candidate: str = source(), **changes: Any) -> dict[str, Any]:
    return {"problem": PROBLEM.id, "candidate": candidate, "backend": "cpp", **changes}


def post(
    running: Running, candidate: str = source(), headers: dict[str, str] | None = None, **changes: Any
) -> tuple[int, dict[str, str], Any]:
    return ask(running, "POST", "/v1/evaluations", submission(candidate, **changes), headers)


def finished(running: Running, evaluation: str) -> dict[str, Any]:
    while True:
        _, _, answer = ask(running, "GET", f"/v1/evaluations/{evaluation}?wait=10")
        if answer["state"] not in ("queued", "running"):
            assert isinstance(answer, dict)
            return answer


@pytest.fixture
def judge() -> StandIn:
    return StandIn()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service for tests that leave nothing behind."""
    operator = EvaluationConfig(limits=Limits(total_s=100))
    folder = tmp_path_factory.mktemp("service") / "state"
    with Running(folder, StandIn(), front={"bounds": BOUNDS}, operator=operator) as service:
        yield service


@pytest.fixture
def running(tmp_path: Path, judge: StandIn) -> Iterator[Running]:
    with Running(tmp_path / "state", judge, front={"bounds": BOUNDS}) as service:
        yield service
        judge.gate.set()


def test_the_same_content_is_one_evaluation_however_many_send_it(running: Running, judge: StandIn) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post(running, source("GATE")), range(20)))
    assert {status for status, _, _ in answers} == {202}
    (evaluation,) = {answer["id"] for _, _, answer in answers}
    assert {headers["location"] for _, headers, _ in answers} == {f"/v1/evaluations/{evaluation}"}
    judge.gate.set()
    answer = finished(running, evaluation)
    assert (answer["state"], answer["evaluation"]["status"]) == ("finished", "PASSED")
    assert answer["evaluation"]["config"]["device"] == "cpu"
    assert len(judge.begun) == 1

    status, _, again = post(running, source("GATE"))
    assert (status, again) == (200, answer)
    status, _, fresh = post(running, source("GATE"), fresh=True)
    assert (status, fresh["id"], fresh["round"]) == (202, evaluation, 2)
    finished(running, evaluation)
    assert len(judge.begun) == 2
    different = post(running, source("GATE"), config={"trials": 2})
    assert different[2]["id"] != evaluation


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"problem": NaN}',
        b'{"problem": "level1/01_add", "candidate": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b"9" * 9_999,
        submission(config={"limits": {"total_s": 1e300}}),
        json.dumps(submission(config={"limits": {"total_s": 5}})).replace("5}", "1e999}").encode(),
        submission(config={"limits": {"total_s": 101}}),
        submission(config={"limits": {"total_s": -1}}),
        submission(config={"trials": True}),
        submission(config={"trials": 10**30}),
        submission(config={"trials": "5"}),
        submission(config={"measure": "yes"}),
        submission(fresh=1),
        submission(config={"shapes": "huge"}),
        submission(config={"sandbox": "none"}),
        submission(config={"secret_seed": 1}),
        submission(config={"device": "cuda:7"}),
        submission(config={"baselines": []}),
        submission(backend="cuda"),
        submission(backend="fortran\n"),
        submission(candidate=""),
        submission(problem="../../etc/passwd"),
        submission(problem="/etc/passwd"),
        submission(problem="level1/01_add/../01_add"),
        submission(problem="level9/99_none"),
        submission(problem={"id": PROBLEM.id, "sha": "0" * 64}),
        submission(problem={"id": "x", "source": "class Model: ..."}),
        submission(problem={"id": "x", "source": "\0"}),
        submission(problem={"id": "x", "source": "-" * 90_000 + "1"}),
        submission(problem={"id": "x", "source": "(" * 9_000}),
        submission(
            problem={
                "id": "x",
                "source": "class Model: ...\ndef get_inputs(): ...\nSHAPES = {'a': {'b': {[]: 1}}}",
            }
        ),
    ],
    ids=lambda body: str(body)[:40].encode("ascii", "replace").decode(),
)
def test_what_cannot_be_judged_is_refused_with_a_reason(refusing: Running, body: Any) -> None:
    status, headers, answer = ask(refusing, "POST", "/v1/evaluations", body)
    assert (status, headers["content-type"]) == (422, "application/problem+json"), answer
    assert answer["status"] == 422
    assert answer["type"].startswith("urn:kernelwright:")
    assert answer["detail"]
    assert refusing.desk.queued == refusing.desk.running == 0


def test_other_requests_are_refused_too(refusing: Running) -> None:
    def refused(*question: Any, **headers: str) -> tuple[int, str]:
        status, found, answer = ask(refusing, *question, **({"headers": headers} if headers else {}))
        assert found["content-type"] == "application/problem+json"
        return status, answer["type"].rpartition(":")[2]

    unknown = "0" * 64
    assert refused("GET", f"/v1/evaluations/{unknown}") == (404, "unknown-evaluation")
    assert refused("DELETE", f"/v1/evaluations/{unknown}") == (404, "unknown-evaluation")
    assert refused("GET", "/v1/evaluations/%2e%2e%2fstate") == (404, "not-found")
    assert refused("GET", "/v1/evaluations/..%00") == (422, "invalid-request")
    assert refused("GET", f"/v1/evaluations/{unknown}?wait=nan") == (422, "invalid-request")
    assert refused("GET", f"/v1/evaluations/{unknown}?wait=-1") == (422, "invalid-request")
    assert refused("PUT", "/v1/evaluations") == (405, "method-not-allowed")
    assert refused("GET", "/nowhere%ff%fe") == (404, "not-found")
    text = {"Content-Type": "text/plain"}
    assert refused("POST", "/v1/evaluations", submission(), **text) == (415, "not-json")
    large = json.dumps(submission("x" * 150_000)).encode()
    assert refused("POST", "/v1/evaluations", large) == (413, "too-large")
    assert refused("POST", "/v1/evaluations", iter([large])) == (413, "too-large")


def test_sources_of_problems_need_leave(tmp_path: Path, judge: StandIn) -> None:
    asked = submission(problem={"id": "mine", "source": PROBLEM.source})
    with Running(tmp_path / "closed", judge, allows_sources=False) as closed:
        status, _, answer = ask(closed, "POST", "/v1/evaluations", asked)
        assert (status, "--allow-problem-sources" in answer["detail"]) == (422, True)
        assert [one["id"] for one in closed.client().problems()] == [PROBLEM.id]
    with Running(tmp_path / "open", judge) as service:
        _, _, answer = ask(service, "POST", "/v1/evaluations", asked)
        assert finished(service, answer["id"])["evaluation"]["problem"] == "mine"


@pytest.mark.parametrize(("word", "kind"), [("MACHINE", "machine"), ("CRASH", "evaluator")])
def test_a_failure_of_the_machine_is_no_score_and_is_tried_again(
    running: Running, judge: StandIn, word: str, kind: str
) -> None:
    for tries in (1, 2):
        status, _, answer = post(running, source(word))
        assert status == 202
        answer = finished(running, answer["id"])
        assert (answer["state"], answer["evaluation"], answer["failure"]["kind"]) == ("failed", None, kind)
        assert len(judge.begun) == tries


def test_a_full_queue_turns_away_until_there_is_a_place(tmp_path: Path, judge: StandIn) -> None:
    with Running(tmp_path / "state", judge, places=2) as service:
        first = post(service, source("GATE"))[2]["id"]
        while service.desk.running == 0:
            time.sleep(0.01)
        waiting = [post(service, source(number=number)) for number in range(4)]
        assert [status for status, _, _ in waiting] == [202, 202, 429, 429]
        assert all(int(headers["retry-after"]) >= 1 for _, headers, _ in waiting[2:])
        assert waiting[2][2]["type"] == "urn:kernelwright:queue-full"
        joined = post(service, source(number=1))
        assert (joined[0], joined[2]["id"]) == (202, waiting[1][2]["id"])
        second = ask(service, "GET", f"/v1/evaluations/{joined[2]['id']}")[2]
        assert (second["state"], second["ahead"]) == ("queued", 1)
        judge.gate.set()
        for evaluation in (first, waiting[0][2]["id"], waiting[1][2]["id"]):
            assert finished(service, evaluation)["state"] == "finished"
        assert post(service, source(number=3))[0] == 202


def test_what_waits_or_runs_can_be_cancelled(running: Running, judge: StandIn) -> None:
    runs = post(running, source("GATE", number=1))[2]["id"]
    while running.desk.running == 0:
        time.sleep(0.01)
    waits = post(running, source("GATE", number=2))[2]["id"]
    for evaluation in (waits, runs, runs):
        status, _, answer = ask(running, "DELETE", f"/v1/evaluations/{evaluation}")
        assert (status, answer["state"], answer["evaluation"]) == (200, "cancelled", None)
    again = post(running, source("GATE", number=1))[2]
    assert (again["id"], again["round"]) == (runs, 2)
    judge.gate.set()
    answer = finished(running, runs)
    assert answer["state"] == "finished"
    assert ask(running, "DELETE", f"/v1/evaluations/{runs}")[2] == answer
    assert judge.begun.count(source("GATE", number=2)) == 0
    assert judge.ended == [source("GATE", number=1)]


def test_a_token_cancels_only_its_own_and_shared_work_goes_on(tmp_path: Path, judge: StandIn) -> None:
    def of(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    mine, theirs = "mine-" * 6, "theirs-" * 4
    with Running(tmp_path / "state", judge, token=mine, other_token=theirs) as service:
        wanted = submission(source("GATE"))
        evaluation = ask(service, "POST", "/v1/evaluations", wanted, headers=of(mine))[2]["id"]
        place = f"/v1/evaluations/{evaluation}"
        status, _, refusal = ask(service, "DELETE", place, headers=of(theirs))
        assert (status, refusal["type"]) == (403, "urn:kernelwright:not-submitted")
        assert ask(service, "POST", "/v1/evaluations", wanted, headers=of(theirs))[2]["id"] == evaluation
        status, _, answer = ask(service, "DELETE", place, headers=of(mine))
        assert (status, answer["state"] in ("queued", "running")) == (200, True)
        assert ask(service, "DELETE", place, headers=of(mine))[0] == 403
        assert ask(service, "DELETE", place, headers=of(theirs))[2]["state"] == "cancelled"
        assert ask(service, "DELETE", place, headers=of(mine))[2]["state"] == "cancelled"
        judge.gate.set()


def test_a_long_poll_ends_with_the_evaluation_or_with_the_service(tmp_path: Path, judge: StandIn) -> None:
    with ThreadPoolExecutor(2) as pool, Running(tmp_path / "state", judge, devices=("cpu", "cpu")) as service:
        one, other = (
            post(service, source(word, 60 if word == "PASSED" else 0))[2]["id"] for word in ("GATE", "PASSED")
        )
        polls = [pool.submit(ask, service, "GET", f"/v1/evaluations/{each}?wait=50") for each in (one, other)]
        judge.gate.set()
        assert polls[0].result(30)[2]["state"] == "finished"
        assert ask(service, "GET", "/healthz")[0] == 200
        service.desk.drain()
        assert not polls[1].done(), "what runs may end in time"
        status, headers, answer = post(service, source(number=9))
        assert (status, answer["type"], "retry-after" in headers) == (503, "urn:kernelwright:draining", True)
        status, _, answer = ask(service, "GET", "/healthz")
        assert (status, answer["live"], answer["ready"]) == (503, True, False)
        assert ask(service, "GET", "/healthz/live")[0] == 204
        service.desk.hang_up()
        assert polls[1].result(30)[2]["state"] == "running"
        ask(service, "DELETE", f"/v1/evaluations/{other}")


def test_a_token_is_needed_where_there_is_one(tmp_path: Path, judge: StandIn) -> None:
    with Running(tmp_path / "state", judge, token="right-" * 4) as service:
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {service.token}", "Bearer " + "\xff" * 20):
            for path in ("/v1/problems", "/v1/evaluations", "/metrics", "/nowhere"):
                status, headers, _ = ask(service, "POST", path, submission(), {"Authorization": wrong})
                assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert ask(service, "GET", "/v1/problems")[0] == 200
        for path in ("/healthz", "/healthz/live", "/docs", "/openapi.json"):
            assert ask(service, "GET", path, headers={"Authorization": "Bearer wrong"})[0] < 300
        text = ask(service, "GET", "/metrics")[2].decode()
        assert 'kernelwright_answers_total{code="401"} 20.0' in text
    assert judge.begun == []


def test_without_a_token_a_page_cannot_reach_it_by_another_name(tmp_path: Path, judge: StandIn) -> None:
    with Running(tmp_path / "state", judge, front={"hosts": LOOPBACK_NAMES}) as service:
        for name in ("localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80"):
            assert ask(service, "GET", "/v1/problems", headers={"Host": name})[0] == 200
        for name in ("evil.example", "localhost.evil.example", "[::2]", ""):
            assert ask(service, "GET", "/v1/problems", headers={"Host": name})[0] == 421


def test_slow_clients_are_cut_off_and_hold_up_nobody(running: Running) -> None:
    slow = [socket.create_connection(("127.0.0.1", running.port), timeout=30) for _ in range(50)]
    for number, connection in enumerate(slow):
        connection.sendall(b"POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nX-" if number % 2 else b"")
    dribbling = socket.create_connection(("127.0.0.1", running.port), timeout=30)
    dribbling.sendall(
        b"POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    answer = post(running)[2]
    assert finished(running, answer["id"])["state"] == "finished"
    assert dribbling.recv(1000).startswith(b"HTTP/1.1 408 ")
    for connection in (*slow, dribbling):
        # Cut off: the end of the stream, not a time-out.
        while connection.recv(1000):
            continue
        connection.close()


def test_clients_that_hang_up_leave_the_service_whole(running: Running, judge: StandIn) -> None:
    head = "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = json.dumps(submission(source("GATE")))
    whole = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    for cut in (10, len(head) + 30, len(whole) - 1, len(whole)):
        with socket.create_connection(("127.0.0.1", running.port)) as connection:
            connection.sendall(whole[:cut])
    evaluation = post(running, source("GATE"))[2]["id"]
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(
            f"GET /v1/evaluations/{evaluation}?wait=50 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
    judge.gate.set()
    assert finished(running, evaluation)["state"] == "finished"
    assert judge.begun == [source("GATE")]


def test_the_interface_describes_itself(running: Running) -> None:
    schema = ask(running, "GET", "/openapi.json")[2]
    assert {"/v1/evaluations", "/v1/evaluations/{evaluation}", "/v1/problems"} <= set(schema["paths"])
    refusals = schema["paths"]["/v1/evaluations"]["post"]["responses"]["429"]["content"]
    assert list(refusals) == ["application/problem+json"]
    assert b"openapi.json" in ask(running, "GET", "/docs")[2]


def test_pages_for_people_need_no_network_and_no_token(tmp_path: Path) -> None:
    with Running(tmp_path, StandIn(), "secret-" * 4) as running:
        for path, words in (("/", "ready"), ("/docs", "POST /v1/evaluations")):
            status, headers, body = ask(running, "GET", path, headers={"Authorization": ""})
            page = body.decode()
            assert status == 200 and words in page and "<script" not in page and "http://" not in page
            style = page.partition("<style>")[2].partition("</style>")[0].encode()
            digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
            assert headers["content-security-policy"].startswith(
                f"default-src 'none'; style-src 'sha256-{digest}'"
            )
