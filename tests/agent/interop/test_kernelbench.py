"""A KernelBench run folder survives being imported, judged and written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.datasets import Exported
from kernelwright.agent.interop.handoff import RunExporter, RunSelection
from kernelwright.agent.interop.imports import read_replies
from kernelwright.agent.interop.imports.reply_recorder import ReplyDefaults, record_replies
from kernelwright.agent.interop.kernelbench import EXPORTER, KernelBenchWriter
from kernelwright.evaluator import EvaluationConfig, Problem, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def write_runs(archive: Archive, runs: list[str], out: Path) -> Exported:
    return EXPORTER.write(archive, out, RunSelection(runs=tuple(runs)))


PROBLEMS = {1: "01_square_matmul", 2: "02_softmax", 12: "12_layer_norm", 20: "20_conv", 100: "100_loss"}
SAMPLES = 20


def write_folder(folder: Path, make: Make) -> dict[str, str]:
    """One hundred candidates in their layout: names and sources."""
    folder.mkdir(parents=True)
    sources = {}
    for number in PROBLEMS:
        for sample in range(SAMPLES):
            name = f"level_1_problem_{number}_sample_{sample}_kernel.py"
            sources[name] = make.code(f"{number}/{sample}")
            (folder / name).write_text(sources[name])
    return sources


def judge(archive: Archive, log: Any, make: Make, problems: dict[str, Problem]) -> None:
    for attempt in list(archive.attempts(log.run)):
        number = int(attempt.completion.origin.rpartition("_sample_")[2].split("_")[0])
        status = [Status.PASSED, Status.WRONG_VALUES, Status.COMPILE_ERROR][number % 3]
        evaluation = make.evaluation(
            status,
            1.0 + number,
            problem=problems[attempt.key.problem],
            source=archive.code(attempt),
            backend=attempt.key.backend,
        )
        log.record_evaluation(attempt, evaluation)


def test_names_ids_and_correctness_survive_the_round_trip(tmp_path: Path, make: Make) -> None:
    sources = write_folder(tmp_path / "their-model", make)
    problems = {name: make.problem(name) for name in (f"level1/{stem}" for stem in PROBLEMS.values())}
    archive = Archive(tmp_path / "runs")
    replies = list(read_replies(tmp_path / "their-model"))
    log, taken = record_replies(archive, replies, ReplyDefaults(problems=problems, backend="cpp"))
    with log:
        assert len(taken) == 100
        judge(archive, log, make, problems)
    written = write_runs(archive, [log.run], tmp_path / "out")
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    assert written.used == 100 and not written.left_out
    assert {file.name: file.read_text() for file in folder.glob("*.py")} == sources
    results = json.loads((folder / "eval_results.json").read_text())
    assert list(results) == [str(number) for number in PROBLEMS]
    for entries in results.values():
        assert [entry["sample_id"] for entry in entries] == list(range(SAMPLES))
        for entry in entries:
            assert entry.keys() == {
                "sample_id",
                "compiled",
                "correctness",
                "metadata",
                "runtime",
                "runtime_stats",
            }
            assert entry["correctness"] is (entry["sample_id"] % 3 == 0)
            assert entry["compiled"] is (entry["sample_id"] % 3 != 2)
            assert (entry["runtime"] > 0) is entry["correctness"]
    again = {Path(reply.origin).name: reply for reply in read_replies(folder)}
    assert {name: reply.text for name, reply in again.items()} == sources
    assert {reply.problem for reply in again.values()} == {f"level1/{number}" for number in PROBLEMS}


def test_baselines_are_written_by_device_level_and_problem(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, speedup=3.0)
        make.attempt(log, Status.WRONG_VALUES, sample=1)
    write_runs(log.archive, [log.run], tmp_path / "out")
    (folder,) = (tmp_path / "out" / "timing").iterdir()
    assert folder.name.endswith("_Test_CPU")
    file = folder / "baseline_time_torch.json"
    assert {path for path in folder.parent.rglob("*") if path.is_file()} == {
        file,
        folder / "baseline_time_torch_compile_inductor_default.json",
    }
    timing = json.loads(file.read_text())["level1"]["01_add.py"]
    assert timing["mean"] == 3.0
    known = {"mean", "std", "min", "max", "num_trials", "hardware", "device", "kernelwright_policy"}
    assert timing.keys() == known


def test_scores_of_two_policies_share_no_folder_and_a_contended_time_is_none(
    tmp_path: Path, make: Make
) -> None:
    busy = make.measurement(9.0).model_copy(update={"contended": True})
    others: list[dict[str, Any]] = [
        {"speedup": 5.0, "device": "Other CPU"},
        {"speedup": 7.0, "config": EvaluationConfig(shapes="small")},
        {"speedup": 9.0, "measurement": busy},
    ]
    with make.log(tmp_path) as log:
        make.attempt(log, speedup=3.0)
        make.attempt(log, Status.COMPILE_ERROR, sample=4)
        for sample, changes in enumerate(others, 1):
            attempt = make.attempt(log, None, sample=sample)
            source = log.archive.code(attempt)
            log.record_evaluation(attempt, make.evaluation(source=source, **changes))
    write_runs(log.archive, [log.run], tmp_path / "out")
    files = (tmp_path / "out" / "runs").glob("*/eval_results.json")
    rows = sorted((json.loads(file.read_text())["1"] for file in files), key=len)
    assert [[row["sample_id"] for row in folder] for folder in rows[-1:]] == [[0, 3, 4]]
    assert sorted(folder[0]["sample_id"] for folder in rows[:2]) == [1, 2]
    passed, contended, broken = rows[-1]
    assert (passed["runtime"], contended["runtime"], broken["compiled"]) == (1.0, -1.0, False)
    assert contended["correctness"] and "other work" in contended["metadata"]["kernelwright_unfit"]
    baselines = {
        file.parent.name: json.loads(file.read_text())["level1"]["01_add.py"]["mean"]
        for file in (tmp_path / "out" / "timing").glob("*/baseline_time_torch.json")
    }
    assert sorted(baselines.values()) == [3.0, 5.0, 7.0]
    for folder in rows:
        (policy,) = {row["metadata"]["kernelwright_policy"] for row in folder}
        assert any(name.startswith(policy.partition(":")[0]) for name in baselines)


def test_turns_of_a_conversation_become_samples_of_their_own(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for turn in range(3):
            make.attempt(log, strategy="refine", turn=turn)
        make.attempt(log, None, sample=5)
        make.attempt(log, Status.NO_CODE, sample=6)
    written = write_runs(log.archive, [log.run], tmp_path / "out")
    (file,) = (tmp_path / "out").glob("runs/*/eval_results.json")
    results = json.loads(file.read_text())
    assert [(row["sample_id"], row["metadata"]["kernelwright_turn"]) for row in results["1"]] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]
    assert written.left_out == {"not judged": 1, "no candidate": 1}


def test_baselines_of_all_runs_stand_in_one_file(tmp_path: Path, make: Make) -> None:
    runs = []
    for problem in ("level1/01_add", "level1/02_mul"):
        with make.log(tmp_path, problems=(make.problem(problem),)) as log:
            make.attempt(log, problem=problem)
        runs.append(log.run)
    write_runs(log.archive, runs, tmp_path / "out")
    (file,) = (tmp_path / "out" / "timing").rglob("baseline_time_torch.json")
    assert list(json.loads(file.read_text())["level1"]) == ["01_add.py", "02_mul.py"]


def test_models_whose_names_make_one_folder_name_stay_apart(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for model in ("org/a", "org_a", "org a"):
            make.attempt(log, model=model)
    written = write_runs(log.archive, [log.run], tmp_path / "out")
    assert written.used == 3
    assert len(list((tmp_path / "out").glob("runs/*/eval_results.json"))) == 3


def test_a_damaged_text_costs_its_attempt_alone(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log)
        make.attempt(log, sample=1)
    first = next(log.archive.attempts(log.run))
    assert first.evaluation is not None
    TextStore(log.folder / "texts").path(first.evaluation.evaluation).unlink()
    written = write_runs(log.archive, [log.run], tmp_path / "out")
    assert (written.used, written.left_out) == (1, {"a text of it is missing or damaged": 1})


def test_what_fails_or_holds_nothing_leaves_no_folder(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, None)

    class Failing(KernelBenchWriter):
        def finish(self) -> str:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        RunExporter("failing", "", Failing).write(log.archive, tmp_path / "out", RunSelection())
    written = write_runs(log.archive, [log.run], tmp_path / "out")
    assert (written.used, written.left_out) == (0, {"not judged": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_model_with_a_very_long_name_has_a_folder_too(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        for end in "ab":
            make.attempt(log, model="m" * 4000 + end)
    assert write_runs(log.archive, [log.run], tmp_path / "out").used == 2
    assert len(list((tmp_path / "out").glob("runs/*/eval_results.json"))) == 2


def test_two_problems_with_one_number_are_not_mixed(tmp_path: Path, make: Make) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, problem="level1/01_add")
        make.attempt(log, Status.WRONG_VALUES, problem="level1/1_mul")
    written = write_runs(log.archive, [log.run], tmp_path / "out")
    assert (written.used, written.left_out) == (1, {"another problem has its number": 1})
    (file,) = (tmp_path / "out").glob("runs/*/eval_results.json")
    assert [entry["correctness"] for entry in json.loads(file.read_text())["1"]] == [True]
