"""Records as flashinfer-bench describes them."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.datasets import Exported
from kernelwright.agent.interop.flashinfer import ENTRY, FlashinferWriter, with_shapes, workload
from kernelwright.agent.interop.flashinfer import trace as trace_of
from kernelwright.agent.interop.handoff import RunExporter, RunSelection
from kernelwright.agent.records.score_policy import policy_of
from kernelwright.evaluator import (
    EvaluationConfig,
    MachineError,
    Mismatch,
    Problem,
    ProblemSignature,
    Status,
    TensorFacts,
)
from kernelwright.evaluator.schema.evaluation import Verification

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def described(problem: Problem, config: EvaluationConfig) -> ProblemSignature:
    x = TensorFacts(name="x", dtype="float32", shape=(4, 64))
    out = TensorFacts(name="", dtype="bfloat16", shape=(4,))
    return ProblemSignature(problem=problem.id, problem_sha=problem.sha, inputs=(x,), outputs=(out,))


STATUSES = (Status.PASSED, Status.WRONG_VALUES, Status.COMPILE_ERROR, Status.TAMPERED)


Describe: TypeAlias = Callable[[Problem, EvaluationConfig], ProblemSignature]


def write_records(
    archive: Archive, out: Path, describe: Callable[..., ProblemSignature] = described
) -> Exported:
    def open(archive: Archive, out: Path) -> FlashinferWriter:
        return FlashinferWriter(archive, out, lambda: nullcontext(SimpleNamespace(signature=describe)))

    return RunExporter("flashinfer", "", open).write(archive, out, RunSelection())


def write(folder: Path, make: Make) -> tuple[list[Any], list[Any]]:
    with make.log(folder) as log:
        for sample, status in enumerate(STATUSES):
            make.attempt(log, status, sample=sample, speedup=2.5)
        make.attempt(log, Status.PASSED, sample=7, speedup=None)
    assert write_records(log.archive, folder / "out").used == 5
    solutions = [
        json.loads(file.read_text()) for file in sorted((folder / "out").glob("solutions/**/*.json"))
    ]
    (file,) = (folder / "out" / "traces").glob("level1_01_add.*.jsonl")
    lines = file.read_text().splitlines()
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


def test_errors_are_those_of_the_verification_or_unknown(tmp_path: Path, make: Make) -> None:
    _, traces = write(tmp_path, make)
    assert traces[0]["evaluation"]["correctness"]["max_absolute_error"] == "NaN"
    mismatch = Mismatch(
        output="",
        trial="t",
        wrong=1,
        total=2,
        expected=(2.0, 0.0),
        actual=(3.0, 1.0),
        max_abs_error=7.5,
        error_ratio=9.0,
        limit_ratio=1.0,
    )
    verification = Verification(
        trials=1,
        distributions=("d",),
        weights="none",
        parameters="none",
        error_ratio=None,
        limit_ratio=1.0,
        mismatch=mismatch,
    )
    with make.log(tmp_path / "more") as log:
        attempt = make.attempt(log, None)
        found = make.evaluation(Status.WRONG_VALUES, verification=verification)
        written = trace_of(attempt, found, policy_of(found))["evaluation"]
    assert isinstance(written, dict)
    assert written["correctness"]["max_absolute_error"] == 7.5
    assert written["correctness"]["max_relative_error"] == 0.5


def test_a_definition_names_every_axis(tmp_path: Path, make: Make) -> None:
    write(tmp_path, make)
    (file,) = (tmp_path / "out" / "definitions").rglob("*.json")
    found = json.loads(file.read_text())
    assert found["name"] == file.stem == "level1_01_add"
    assert found["axes"] == {"n4": {"type": "const", "value": 4}, "n64": {"type": "const", "value": 64}}
    assert found["inputs"] == {"x": {"shape": ["n4", "n64"], "dtype": "float32"}}
    assert found["outputs"]["output_0"]["shape"] == ["n4"]
    compile(found["reference"], "reference", "exec")
    assert "def run(*inputs)" in found["reference"]


def test_a_reference_has_the_constants_of_its_shapes() -> None:
    source = "M = 9\nSHAPES = {'small': {'M': 2}}\nclass Model: ...\ndef get_inputs(): return [M]\n"
    found: dict[str, Any] = {}
    exec(with_shapes(source, "small"), found)
    assert found["get_inputs"]() == [2] and with_shapes(source, None) == source


def test_a_problem_that_cannot_be_described_here_is_told(tmp_path: Path, make: Make) -> None:
    def fail(problem: Problem, config: EvaluationConfig) -> ProblemSignature:
        raise MachineError("no sandbox works here")

    with make.log(tmp_path) as log:
        make.attempt(log)
    written = write_records(log.archive, tmp_path / "out", fail)
    assert written.used == 1 and "1: no sandbox works here" in written.hint


def test_other_terms_are_another_workload(make: Make) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"math": "tf32"},
        {"passes": "forward_backward"},
        {"baselines": ("eager",)},
    ]
    evaluations = [make.evaluation(config=EvaluationConfig.model_validate(config)) for config in settings]
    evaluations += [make.evaluation(device="Other CPU"), make.evaluation(scoring_rules=9)]
    ids = {workload(evaluation.problem_sha, policy_of(evaluation)) for evaluation in evaluations}
    assert len(ids) == len(evaluations)


def test_two_devices_share_no_file_and_a_contended_time_is_none(tmp_path: Path, make: Make) -> None:
    busy = make.measurement(9.0).model_copy(update={"contended": True})
    with make.log(tmp_path) as log:
        first = make.attempt(log)
        make.attempt(log, Status.COMPILE_ERROR, sample=3)
        for sample, changes in enumerate(({"device": "Other CPU"}, {"measurement": busy, "speedup": 9.0}), 1):
            attempt = make.attempt(log, None, sample=sample)
            source = log.archive.code(attempt)
            log.record_evaluation(attempt, make.evaluation(source=source, **changes))  # type: ignore[arg-type]
    write_records(log.archive, tmp_path / "out")
    found = [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in (tmp_path / "out" / "traces").glob("*.jsonl")
    ]
    alone, together = sorted(found, key=len)
    assert [trace["evaluation"]["environment"]["hardware"] for trace in alone] == ["Other CPU"]
    assert {trace["workload"]["uuid"] for trace in alone}.isdisjoint(
        trace["workload"]["uuid"] for trace in together
    )
    judged = {trace["solution"]: trace["evaluation"] for trace in together}
    assert len(judged) == 3
    times = [judged[name].get("performance", {}).get("speedup_factor") for name in judged]
    assert sorted(times, key=str) == [0.0, 2.0, None]
    (log_of_busy,) = [one["log"] for one in judged.values() if "not to be compared" in one["log"]]
    assert "other work disturbed the measurement" in log_of_busy and "Test CPU" in log_of_busy
    assert first.evaluation is not None


def test_problems_whose_names_become_one_are_not_mixed(tmp_path: Path, make: Make) -> None:
    names = ("level1/01_add", "level1_01/add", f"level1/{'x' * 230}a", f"level1/{'x' * 230}b")
    with make.log(tmp_path, problems=tuple(make.problem(name) for name in names)) as log:
        for name in names:
            make.attempt(log, problem=name, model="m" * 4000)
    written = write_records(log.archive, tmp_path / "out")
    assert (written.used, written.left_out) == (3, {"another problem has its name": 1})
    assert len(list((tmp_path / "out" / "traces").iterdir())) == 3


def test_more_problems_than_files_a_process_may_open(tmp_path: Path, make: Make) -> None:
    names = [f"level1/{number:03}_p" for number in range(60)]
    with make.log(tmp_path, problems=tuple(make.problem(name) for name in names)) as log:
        for name in names:
            make.attempt(log, problem=name)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 20 + max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        written = write_records(log.archive, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert written.used == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_their_own_records_take_ours(tmp_path: Path, make: Make) -> None:
    data = pytest.importorskip("flashinfer_bench.data", reason="install .[flashinfer]")
    solutions, traces = write(tmp_path, make)
    for solution in solutions:
        assert data.Solution.model_validate(solution).get_entry_symbol() == "run"
    for trace in traces:
        data.Trace.model_validate(trace)
