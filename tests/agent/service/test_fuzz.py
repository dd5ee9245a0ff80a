"""No request, valid or invalid by the interface's own description, gets a 5xx response."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.service.standin import PROBLEM, Running, StandIn, source

EXAMPLES = 150
"""Requests for each operation, of each kind."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_request_is_answered_by_a_failure(tmp_path: Path) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    hypothesis = pytest.importorskip("hypothesis")
    counts: dict[int, int] = {}
    known = ""

    def check(operation: Any, mode: Any) -> None:
        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            if mode is schemathesis.GenerationMode.POSITIVE:
                if isinstance(case.body, dict):
                    # A problem and a backend there are, so that the rest decides.
                    case.body |= {"problem": PROBLEM.id, "backend": "cpp"}
                if case.path_parameters:
                    case.path_parameters = {"evaluation": known}
            answer = case.call(timeout=60)
            counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (case, answer.text)
            if answer.status_code >= 400 and case.method != "HEAD":
                assert answer.headers["content-type"] == ["application/problem+json"], answer.text

        one()

    with Running(tmp_path, StandIn(), places=10_000) as running:
        client = running.client()
        client.evaluate(PROBLEM, _candidate())
        known = client.submit(PROBLEM, _candidate())["id"]
        schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        for found in schema.get_all_operations():
            for mode in schemathesis.GenerationMode:
                # An operation that takes nothing cannot be asked wrongly.
                with suppress(hypothesis.errors.Unsatisfiable):
                    check(found.ok(), mode)
        assert client.evaluate(PROBLEM, _candidate(1)).status == "PASSED"
    print("answers by status:", dict(sorted(counts.items())))
    assert {200, 202, 422} <= set(counts)


def _candidate(number: int = 0) -> Any:
    from kernelwright.evaluator import Candidate

    return Candidate(source=source(number=number), backend="cpp")
