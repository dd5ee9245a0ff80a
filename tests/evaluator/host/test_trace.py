"""Spans on tracks, in a file that Perfetto reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator.host import trace


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    trace.end()


def events(path: Path) -> list[dict[str, object]]:
    return json.loads(path.read_text().rstrip().rstrip(",") + "]")


def test_without_a_trace_a_span_writes_nothing(tmp_path: Path):
    with trace.span("evaluation 1", "open"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_spans_lie_on_named_tracks_with_their_facts(tmp_path: Path):
    path = tmp_path / "trace.json"
    trace.begin(path)
    with trace.span("evaluation 1", "open"), trace.span("device lock 2", "alone", exclusive=True):
        pass
    found = events(path)
    names = {event["tid"]: event["args"]["name"] for event in found if event["ph"] == "M"}
    spans = [event for event in found if event["ph"] == "X"]
    assert [(names[span["tid"]], span["name"], span["args"]) for span in spans] == [
        ("device lock 2", "alone", {"exclusive": True}),
        ("evaluation 1", "open", {}),
    ]
    inner, outer = spans
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def test_a_span_that_fails_is_written(tmp_path: Path):
    path = tmp_path / "trace.json"
    trace.begin(path)
    with pytest.raises(ValueError, match="no"), trace.span("evaluation 1", "open"):
        raise ValueError("no")
    assert any(event["ph"] == "X" for event in events(path))


def test_an_evaluator_is_traced(tmp_path: Path):
    """Stages, locks and the referee's requests of one real evaluation."""
    from kernelwright.evaluator import Candidate, EvaluationConfig, Evaluator, problem_from_source

    path = tmp_path / "trace.json"
    trace.begin(path)
    source = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(64)]
def get_init_inputs():
    return []
"""
    problem = problem_from_source(source, "add_one")
    with Evaluator(cache=tmp_path / "cache") as evaluator:
        config = EvaluationConfig(measure=False, trials=1, threads=1)
        candidate = Candidate(source=source.replace("class Model", "class ModelNew"), backend="cpp")
        evaluator.evaluate(problem, candidate, config)
    names = {event["name"] for event in events(path)}
    assert {"open", "load", "verify", "shared", "start", "hold"} <= names
