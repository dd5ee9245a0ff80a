"""Requests to judges elsewhere, and sites that are soon impatient."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelwright.agent.evaluation.evaluation_site import EvaluationRequest
from kernelwright.agent.evaluation.policy import Patience
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.agent.providers.replay.loopback_server import HttpRequest, HttpResponse, LoopbackServer
from kernelwright.evaluator import Candidate, Evaluation, EvaluationConfig, Problem
from tests.agent.service.standin import PROBLEM, Running

CONFIG = EvaluationConfig()
QUICK = Patience(lost_s=0.6, nobody_s=20.0, recheck_s=0.2)
HASTY = Patience(lost_s=0.2, nobody_s=0.5, recheck_s=0.1)


def request(text: str, problem: Problem = PROBLEM, *besides: Evaluation, **config: Any) -> EvaluationRequest:
    candidate = Candidate(source=text, backend="cpp")
    return EvaluationRequest(problem, candidate, EvaluationConfig(**config), besides)


def site(*services: Running | str, patience: Patience = QUICK, **options: Any) -> RemoteSite:
    tokens = {one if isinstance(one, str) else one.url: None for one in services}
    tokens |= {one.url: one.token for one in services if isinstance(one, Running) and one.token}
    config = options.pop("config", CONFIG)
    return RemoteSite(tokens, config, ["cpp"], patience=patience, **options)


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def answering(answer: Callable[[HttpRequest], HttpResponse]) -> Iterator[str]:
    """The address of a server."""
    with LoopbackServer(answer) as server:
        yield server.url
