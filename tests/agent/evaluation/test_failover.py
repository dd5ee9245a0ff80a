"""Judges that end, are killed, or do not answer: their work goes to others, and is done once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks
from kernelwright.agent.evaluation.policy import Patience
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.agent.evaluation.service_facts import facts_of
from kernelwright.agent.providers.replay.loopback_server import HttpFailure, HttpRequest, HttpResponse
from kernelwright.evaluator import Candidate, MachineError, Status
from tests.agent.evaluation.elsewhere import CONFIG, HASTY, QUICK, answering, request, site, wait_for
from tests.agent.service.standin import PROBLEM, TOKEN, Running, StandIn, evaluation, source
from tests.agent.service.test_load import Hunted


def test_a_service_that_ends_hands_its_queue_to_another(tmp_path: Path, aside: ThreadPoolExecutor) -> None:
    judge, other = StandIn(), StandIn()
    other.gate.set()
    with ExitStack() as stack:
        second = stack.enter_context(Running(tmp_path / "b", other))
        with Running(tmp_path / "a", judge) as first, site(first) as judges:
            running = aside.submit(judges.evaluate, request(source("GATE")), EvaluationHooks())
            wait_for(lambda: judge.begun)
            queued = aside.submit(judges.evaluate, request(source("GATE", number=1)), EvaluationHooks())
            wait_for(lambda: first.desk.queued == 1)
            (another,) = site(second)._services
            judges._open.enter_context(another.client)
            judges._services.append(another)
            first.service.end()
            assert queued.result(30).status is Status.PASSED
            judge.gate.set()
            assert running.result(30).status is Status.PASSED
    assert (judge.ended, other.ended) == ([source("GATE")], [source("GATE", number=1)])


def test_unanswered_work_of_a_killed_service_goes_to_another_and_is_not_done_twice(
    tmp_path: Path, aside: ThreadPoolExecutor
) -> None:
    hunted = [Hunted(tmp_path / name, workers=1) for name in ("a", "b")]
    for one in hunted:
        one.folder.mkdir()
        one.start()
    try:
        urls = {f"http://127.0.0.1:{one.port}": one for one in hunted}
        tokens: dict[str, str | None] = dict.fromkeys(urls, TOKEN)
        with RemoteSite(tokens, CONFIG, ["cpp"], patience=QUICK) as judges:
            found = aside.submit(judges.evaluate, request(source(seconds=1.5)), EvaluationHooks())
            wait_for(lambda: any(one.journal.exists() for one in hunted))
            victim = next(one for one in hunted if one.journal.exists())
            survivor = next(one for one in hunted if one is not victim)
            victim.kill()
            assert found.result(60).status is Status.PASSED
            assert survivor.ended() == 1
            victim.start()
            wait_for(lambda: not any(one.trouble for one in judges._services))
        # What it had begun was withdrawn before it could end.
        assert victim.ended() == 0
        # One alone is waited for, and what it knows is not asked again.
        url = f"http://127.0.0.1:{survivor.port}"
        with RemoteSite({url: TOKEN}, CONFIG, ["cpp"], patience=QUICK) as judges:
            late = aside.submit(judges.evaluate, request(source(seconds=1.0, number=1)), EvaluationHooks())
            wait_for(lambda: survivor.journal.read_text().count("begun") == 2)
            survivor.kill()
            time.sleep(0.8)
            survivor.start()
            assert late.result(60).status is Status.PASSED
        assert survivor.ended() == 2
    finally:
        for one in hunted:
            one.kill()


@contextmanager
def dying(served: list[str]) -> Iterator[str]:
    """A service that accepts an evaluation and is never heard of again, until it is met anew."""
    facts = facts_of(CONFIG, ["cpu"]).model_dump(mode="json") | {"takes_sources": True}
    accepted = {
        "id": "a" * 64,
        "state": "running",
        "stage": None,
        "ahead": None,
        "closing": False,
        "results": [],
    }

    def answer(question: HttpRequest) -> HttpResponse:
        if question.path == "/v1/service":
            return HttpResponse(body=facts)
        if question.method == "POST":
            if question.json()["only_known"]:
                raise HttpFailure(404, "never heard of it")
            served.append(url)
            return HttpResponse(body=accepted)
        raise HttpFailure(502, "no one behind")

    with answering(answer) as url:
        yield url


def test_a_candidate_that_takes_one_service_after_the_other_down_is_not_judged() -> None:
    served: list[str] = []
    with ExitStack() as stack:
        urls = [stack.enter_context(dying(served)) for _ in range(4)]
        judges = stack.enter_context(site(*urls, patience=HASTY))
        with pytest.raises(MachineError, match="not evaluated"):
            judges.evaluate(request(source()), EvaluationHooks())
    assert len(served) == len(set(served)) == 3


def test_nobody_there_is_said_with_every_address(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9"
    with pytest.raises(MachineError, match=rf"no judge answers \({gone}.*--judge"), site(gone):
        pass
    with Running(tmp_path, StandIn()) as running, site(gone, running) as judges:
        assert judges.evaluate(request(source()), EvaluationHooks()).status is Status.PASSED
    assert "the others evaluate meanwhile" in caplog.text


def test_a_patient_client_heeds_what_a_busy_service_asks_for() -> None:
    facts = facts_of(CONFIG, ["cpu"]).model_dump(mode="json") | {"takes_sources": True}
    asked: list[float] = []
    told = threading.Event()

    def answer(question: HttpRequest) -> HttpResponse:
        if question.path == "/v1/service":
            return HttpResponse(body=facts)
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise HttpFailure(429, "the queue is full", retry_after_s=2)
        done = evaluation(PROBLEM, Candidate(source=source(), backend="cpp"), CONFIG, Status.PASSED)
        ended = {
            "id": "a" * 64,
            "state": "finished",
            "results": [],
            "evaluation": done.model_dump(mode="json"),
        }
        return HttpResponse(body=ended)

    with answering(answer) as url, site(url, patience=Patience(lost_s=30.0)) as judges:
        judges.evaluate(request(source()), EvaluationHooks(on_queue=lambda _: told.set()))
    assert asked[1] - asked[0] >= 2
