"""The part of the interface by which a service judges for others: facts, batches, progress, results."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelwright.agent.evaluation.service_client import ServiceClient, submission
from kernelwright.agent.evaluation.service_facts import ServiceFacts
from kernelwright.agent.service.policy import BATCH
from kernelwright.evaluator import SCORING_RULES, Candidate, EvaluationConfig, source_sha
from tests.agent.service.standin import PROBLEM, Running, StandIn, source
from tests.agent.service.test_http_api import ask, finished, post
from tests.agent.service.test_http_api import submission as body


def test_a_service_tells_its_evaluator_and_its_devices(tmp_path: Path) -> None:
    with Running(tmp_path, StandIn(), devices=("cpu", "cpu"), token="right-" * 4) as running:
        facts = ServiceFacts.model_validate(running.client().facts())
        assert (facts.evaluator_sha, facts.scoring_rules) == (source_sha(), SCORING_RULES)
        assert [(one.kind, one.at_once) for one in facts.devices] == [("cpu", 2)]
        assert (facts.problems, facts.trouble) == ({PROBLEM.id: PROBLEM.sha}, ())
        assert ask(running, "GET", "/v1/service", headers={"Authorization": "Bearer wrong"})[0] == 401
        running.desk.drain()
        assert running.client().facts()["trouble"] == ["the service is ending"]


def test_a_batch_is_answered_one_by_one(tmp_path: Path) -> None:
    judge = StandIn()
    with Running(tmp_path, judge, places=2) as running:
        bodies = [submission(PROBLEM, Candidate(source=source("GATE"), backend="cpp"), None)]
        with running.client() as client:
            (first,) = client.submit_all(bodies)
            while not judge.begun:
                time.sleep(0.01)
            bodies += [
                submission(PROBLEM, Candidate(source=source(number=number), backend="cpp"), None)
                for number in range(1, 4)
            ]
            bodies.append(submission("level9/none", Candidate(source=source(), backend="cpp"), None))
            answers = client.submit_all(bodies)
            judge.gate.set()
        assert [one["status"] for one in answers] == [202, 202, 202, 429, 422]
        assert [one["body"].get("ahead") for one in answers[:3]] == [None, 0, 1]
        assert answers[0]["body"]["id"] == first["body"]["id"]
        assert answers[3]["retry_after_s"] > 0
        assert (answers[4]["retry_after_s"], answers[4]["body"]["type"]) == (
            None,
            "urn:kernelwright:problem-refused",
        )
        for one in answers[:3]:
            finished(running, one["body"]["id"])
        too_many = {"submissions": [body()] * (BATCH + 1)}
        for wrong in ({"submissions": []}, {"submissions": [{}]}, too_many):
            assert ask(running, "POST", "/v1/evaluations/batch", wrong)[0] == 422
    assert len(judge.begun) == 3


def test_a_wait_ends_with_the_next_stage(tmp_path: Path) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running, ThreadPoolExecutor(2) as pool:
        first = post(running, source("GATE"))[2]["id"]
        second = post(running, source("GATE", number=1))[2]["id"]
        while (answer := ask(running, "GET", f"/v1/evaluations/{first}")[2])["stage"] is None:
            time.sleep(0.01)
        assert (answer["state"], answer["stage"], answer["closing"]) == ("running", "verify", False)
        path = f"/v1/evaluations/{first}?wait=30&seen="
        # It has gone on already.
        assert ask(running, "GET", f"{path}queued")[2]["stage"] == "verify"
        ends = pool.submit(ask, running, "GET", f"{path}running/verify")
        begins = pool.submit(ask, running, "GET", f"/v1/evaluations/{second}?wait=30&seen=queued")
        time.sleep(0.2)
        assert not ends.done()
        assert not begins.done()
        judge.gate.set()
        assert ends.result(30)[2]["state"] == "finished"
        assert begins.result(30)[2]["state"] in ("running", "finished")
        finished(running, second)


def test_single_results_and_what_is_known_can_be_asked_for(tmp_path: Path) -> None:
    with Running(tmp_path, StandIn()) as running:
        status, _, refusal = post(running, only_known=True)
        assert (status, refusal["type"]) == (404, "urn:kernelwright:unknown-evaluation")
        evaluation = post(running)[2]["id"]
        told = finished(running, evaluation)
        status, _, known = post(running, only_known=True)
        assert (status, known) == (200, told)
        status, _, found = ask(running, "GET", f"/v1/evaluations/{evaluation}/results/1")
        assert (status, found["evaluation"]) == (200, told["evaluation"])
        for number, code in (("2", 404), ("0", 422), ("x", 422)):
            assert ask(running, "GET", f"/v1/evaluations/{evaluation}/results/{number}")[0] == code


def test_a_service_that_ends_says_so_and_finishes_what_runs(tmp_path: Path) -> None:
    judge = StandIn()
    with Running(tmp_path, judge) as running, ThreadPoolExecutor(1) as pool:
        first = post(running, source("GATE"))[2]["id"]
        second = post(running, source("GATE", number=1))[2]["id"]
        while not judge.begun:
            time.sleep(0.01)
        waits = pool.submit(ask, running, "GET", f"/v1/evaluations/{first}?wait=30")
        running.service.end()
        while not (answer := ask(running, "GET", f"/v1/evaluations/{second}?wait=30")[2])["closing"]:
            time.sleep(0.01)
        assert answer["state"] == "queued"
        judge.gate.set()
        assert waits.result(30)[2]["state"] == "finished"
    assert judge.ended == [source("GATE")]


def test_the_client_says_counters_and_every_term(tmp_path: Path) -> None:
    with Running(tmp_path, StandIn(), operator=EvaluationConfig(trials=2)) as running:
        config = EvaluationConfig(counters=True).model_dump(mode="json", include={"counters", "trials"})
        sent = submission(PROBLEM, Candidate(source=source(), backend="cpp"), config)
        assert json.loads(sent)["config"] == {"counters": True, "trials": 7}
        (answer,) = ServiceClient(running.url).submit_all([sent])
        found = finished(running, answer["body"]["id"])["evaluation"]["config"]
        assert (found["counters"], found["trials"]) == (True, 7)
