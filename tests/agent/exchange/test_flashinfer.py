"""Records as flashinfer-bench describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.exchange.flashinfer import ENTRY, workload, write_records
from evaluator import EvaluationConfig, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

STATUSES = (Status.PASSED, Status.WRONG_VALUES, Status.COMPILE_ERROR, Status.TAMPERED)


def write(folder: Path, make: Make) -> tuple[list[Any], list[Any]]:
    with make.log(folder) as log:
        for sample, status in enumerate(STATUSES):
            make.attempt(log, status, sample=sample, speedup=2.5)
        make.attempt(log, Status.PASSED, sample=7, speedup=None)
    assert write_records(log.archive, [log.run], folder / "out").candidates == 5
    solutions = [
        json.loads(file.read_text()) for file in sorted((folder / "out").glob("solutions/**/*.json"))
    ]
    lines = (folder / "out" / "traces" / "level1_01_add.jsonl").read_text().splitlines()
    return solutions, [json.loads(line) for line in lines]


def test_every_candidate_is_a_solution_and_every_evaluation_a_trace(tmp_path: Path, make: Make) -> None:
    solutions, traces = write(tmp_path, make)
    assert len(solutions) == len(traces) == 5
    assert {trace["solution"] for trace in traces} == {solution["name"] for solution in solutions}
    for solution in solutions:
        paths = [source["path"] for source in solution["sources"]]
        assert solution["spec"]["entry_point"] == f"{ENTRY}::run" and ENTRY in paths
        assert solution["definition"] == "level1_01_add"
        for source in solution["sources"]:
            compile(source["content"], source["path"], "exec")
    statuses = [trace["evaluation"]["status"] for trace in traces]
    assert statuses == ["PASSED", "INCORRECT_NUMERICAL", "COMPILE_ERROR", "RUNTIME_ERROR", "PASSED"]
    for trace in traces:
        judged = trace["evaluation"]
        assert ("performance" in judged) is (judged["status"] == "PASSED")
        assert ("correctness" in judged) is (judged["status"] in ("PASSED", "INCORRECT_NUMERICAL"))
    assert traces[0]["evaluation"]["performance"]["speedup_factor"] == 2.5
    assert len({trace["workload"]["uuid"] for trace in traces}) == 1


def test_other_terms_are_another_workload(make: Make) -> None:
    plain, tf32, backward = (
        EvaluationConfig.model_validate(config)
        for config in ({}, {"math": "tf32"}, {"passes": "forward_backward"})
    )
    ids = {workload(make.evaluation(config=config)) for config in (plain, tf32, backward)}
    assert len(ids) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_their_own_records_take_ours(tmp_path: Path, make: Make) -> None:
    data = pytest.importorskip("flashinfer_bench.data", reason="install .[flashinfer]")
    solutions, traces = write(tmp_path, make)
    for solution in solutions:
        assert data.Solution.model_validate(solution).get_entry_symbol() == "run"
    for trace in traces:
        data.Trace.model_validate(trace)
