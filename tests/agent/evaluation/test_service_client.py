"""The client: what it asks again, what it gives up, and what comes back whole."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.service_client import (
    EvaluationCancelled,
    ServiceClient,
    ServiceRefusal,
    TimeUp,
    submission,
)
from kernelwright.agent.providers.replay.loopback_server import HttpFailure, HttpRequest, HttpResponse
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    Mismatch,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.schema.evaluation import Verification
from tests.agent.evaluation.elsewhere import answering
from tests.agent.service.standin import PROBLEM, Running, StandIn, evaluation, source

RIGHT = Candidate(source=source(), backend="cpp")


def test_the_verdict_comes_back_whole_with_numbers_that_json_lacks(tmp_path: Path) -> None:
    made: list[Evaluation] = []

    def judge(asked: EvaluationRequest, _: EvaluationHooks) -> Evaluation:
        mismatch = Mismatch(
            output="",
            trial="t",
            wrong=1,
            total=2,
            expected=(math.inf, -math.inf),
            actual=(1.5, 0.0),
            max_abs_error=math.inf,
            error_ratio=math.inf,
            limit_ratio=1.0,
        )
        verification = Verification(
            trials=1,
            distributions=("d",),
            weights="none",
            parameters="none",
            error_ratio=None,
            limit_ratio=32.0,
            mismatch=mismatch,
        )
        made.append(
            evaluation(
                asked.problem,
                asked.candidate,
                asked.config,
                Status.WRONG_VALUES,
                verification=verification,
                detail="\u202e\0 \ud800",
                output_tail="ü",
            )
        )
        return made[-1]

    with Running(tmp_path, judge) as running:
        found = running.client().evaluate(PROBLEM, RIGHT, EvaluationConfig(trials=3))
    assert found == made[0].model_copy(update={"detail": "\u202e\0 ?"})
    assert found.config.trials == 3


def test_a_busy_service_is_asked_again_as_it_wishes(tmp_path: Path) -> None:
    judge = StandIn()
    with Running(tmp_path, judge, places=1) as running:
        client = running.client()
        # A first one, by which the service knows that others take no longer.
        client.evaluate(PROBLEM, RIGHT)
        candidates = [Candidate(source=source("GATE", number=number), backend="cpp") for number in range(4)]
        verdicts: list[Evaluation] = []

        def evaluate(candidate: Candidate) -> None:
            verdicts.append(client.evaluate(PROBLEM, candidate, timeout_s=60))

        callers = [threading.Thread(target=evaluate, args=(candidate,)) for candidate in candidates]
        for caller in callers:
            caller.start()
        while b'taken="turned away"' not in running.desk.measures.text():
            callers[0].join(0.05)
        judge.gate.set()
        for caller in callers:
            caller.join(60)
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 4
    assert sorted(judge.begun[1:]) == sorted(candidate.source for candidate in candidates)


@contextmanager
def breaking_off(answers: list[bytes]) -> Iterator[str]:
    """Sends one answer to each connection, as it is, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(30)


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    body = b'{"problems": [{"id": "p"}]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with breaking_off([b"", b"HTTP/1.1 200", head, head + body[:9], b"no http\r\n\r\n", head + body]) as url:
        assert ServiceClient(url).problems() == [{"id": "p"}]


def test_a_wish_for_patience_is_heeded() -> None:
    asked: list[str] = []

    def answer(question: HttpRequest) -> HttpResponse:
        asked.append(question.path)
        raise HttpFailure(429, "the queue is full", retry_after_s=100)

    with answering(answer) as url, pytest.raises(TimeUp, match="answers 429"):
        ServiceClient(url).evaluate(PROBLEM.id, RIGHT, timeout_s=10)
    assert asked == ["/v1/evaluations"]


def test_lost_connections_and_restarts_do_not_reach_the_caller() -> None:
    asked: list[str] = []
    verdict = evaluation(PROBLEM, RIGHT, EvaluationConfig(), Status.PASSED).model_dump(mode="json")

    def answer(question: HttpRequest) -> HttpResponse:
        asked.append(question.method)
        match len(asked):
            case 1:
                raise HttpFailure(503, "restarting", retry_after_s=0)
            case 2:
                return HttpResponse(body={"id": "a" * 64, "state": "queued"})
            case 3:
                raise ConnectionResetError
            case 4:
                raise HttpFailure(404, "pruned meanwhile")
            case _:
                return HttpResponse(body={"id": "a" * 64, "state": "finished", "evaluation": verdict})

    with answering(answer) as url:
        found = ServiceClient(url).evaluate(PROBLEM.id, RIGHT, timeout_s=60)
    assert found.status is Status.PASSED
    assert asked == ["POST", "POST", "GET", "GET", "POST"]


def test_what_no_repetition_helps_is_raised_at_once(tmp_path: Path) -> None:
    other = problem_from_source(PROBLEM.source + "\n# changed\n", PROBLEM.id)
    with Running(tmp_path, StandIn(), token="right-" * 4) as running:
        client = running.client()
        with pytest.raises(ServiceRefusal, match="unauthorized") as caught:
            ServiceClient(running.url, "wrong-" * 4).evaluate(PROBLEM, RIGHT)
        assert caught.value.status == 401
        with pytest.raises(ServiceRefusal, match="config-refused"):
            client.evaluate(PROBLEM, RIGHT, {"shapes": "none such"})
        with pytest.raises(ServiceRefusal, match="has the hash"):
            client.evaluate(other, RIGHT)
        assert client.evaluate(other, RIGHT, send_source=True).problem_sha == other.sha
    for config in ({"sandbox": "none"}, EvaluationConfig(secret_seed=3)):
        with pytest.raises(ConfigError, match="operator decides"):
            submission(PROBLEM, RIGHT, config)
    for address in ("judge:8080", "ftp://judge", "http://"):
        with pytest.raises(ConfigError, match="example"):
            ServiceClient(address)


def test_the_callers_time_is_kept_and_the_evaluation_goes_on(tmp_path: Path) -> None:
    judge = StandIn()
    slow = Candidate(source=source("GATE"), backend="cpp")
    with Running(tmp_path, judge) as running:
        with pytest.raises(TimeUp, match=r"running|queued"):
            running.client().evaluate(PROBLEM, slow, timeout_s=0.5)
        judge.gate.set()
        assert running.client().evaluate(PROBLEM, slow).status is Status.PASSED
    assert judge.begun == [slow.source]
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(TimeUp, match="did not answer in time"):
        ServiceClient(f"http://127.0.0.1:{port}").evaluate(PROBLEM, RIGHT, timeout_s=0.3)


def test_whoever_waits_hears_of_a_cancellation(tmp_path: Path) -> None:
    slow = Candidate(source=source("GATE"), backend="cpp")
    with Running(tmp_path, StandIn()) as running:
        client = running.client()

        def cancel() -> None:
            while not (work := list(running.desk._at_work)):
                threading.Event().wait(0.01)
            client.cancel(work[0])

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(EvaluationCancelled):
            client.evaluate(PROBLEM, slow)
        canceller.join()
