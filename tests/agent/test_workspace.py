"""Kept kernels: only what passed, each once, with the best score of every hardware and policy."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent import workspace as module
from kernelwright.agent.archive import ArchiveError
from kernelwright.agent.workspace import Provenance, UnknownKernel, Workspace
from kernelwright.evaluator import Candidate, EvaluationConfig, Math, Status

if TYPE_CHECKING:
    from tests.agent.conftest import Make

FROM = Provenance(model="model-a", run="r", license="MIT")


def test_everything_lies_below_one_root(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    assert [folder.relative_to(tmp_path).parts[0] for folder in (place.runs, place.generated)] == [
        "runs",
        "generated",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_kept_kernel_comes_back_with_its_score_and_origin(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    evaluation = make.evaluation(speedup=2.5)
    kept = place.keep(make.code(), evaluation, FROM)
    assert kept.folder == tmp_path / "generated/cpp/01_add" / evaluation.candidate_sha[:12]
    assert (kept.folder / "kernel.py").read_text() == make.code()
    (found,) = place.kernels()
    assert found == kept == place.kernel(kept.id[:5])
    assert found.record.provenance == FROM
    assert found.score == evaluation


def test_the_score_file_is_the_same_bytes_every_time(tmp_path: Path, make: Make) -> None:
    one, other = Workspace(tmp_path / "one"), Workspace(tmp_path / "other")
    scores = [make.evaluation(device=device) for device in ("B", "A")]
    for score in scores:
        kept = one.keep(make.code(), score, FROM)
    for score in reversed(scores):
        again = other.keep(make.code(), score, FROM)
    assert (kept.folder / "score.json").read_bytes() == (again.folder / "score.json").read_bytes()
    text = (kept.folder / "score.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_a_score_without_a_finite_end_is_json_all_the_same(tmp_path: Path, make: Make) -> None:
    score = make.evaluation(speedup=2.0, measurement=make.measurement(2.0, low=1.1, high=inf))
    kept = Workspace(tmp_path).keep(make.code(), score, FROM)
    text = (kept.folder / "score.json").read_text()
    assert "Infinity" not in text.replace('"Infinity"', "")
    (found,) = Workspace(tmp_path).kernels()
    assert found.score == score


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_only_what_passed_is_kept(tmp_path: Path, make: Make, status: Status) -> None:
    with pytest.raises(ValueError, match="only what passed"):
        Workspace(tmp_path).keep(make.code(), make.evaluation(status), FROM)
    assert not (tmp_path / "generated").exists()


def test_a_score_of_other_source_is_refused(tmp_path: Path, make: Make) -> None:
    with pytest.raises(ValueError, match="only what passed"):
        Workspace(tmp_path).keep("other", make.evaluation(), FROM)


def test_the_latest_score_stays_and_each_policy_has_its_own(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    for minute, evaluation in enumerate(
        (
            make.evaluation(speedup=9.0),
            make.evaluation(speedup=1.9),
            make.evaluation(speedup=4.0, device="NVIDIA H200"),
            make.evaluation(speedup=5.0, config=EvaluationConfig(baselines=("eager",))),
            make.evaluation(speedup=3.0, config=EvaluationConfig(math=Math.TF32)),
            make.evaluation(speedup=1.0, config=EvaluationConfig(shapes="small")),
        )
    ):
        at = f"2026-01-01T00:{minute:02}:00+00:00"
        kept = place.keep(make.code(), evaluation.model_copy(update={"evaluated_at": at}), FROM)
    assert sorted(score.speedup or 0 for score in kept.record.scores) == [1.0, 1.9, 3.0, 4.0, 5.0]
    assert kept.score.speedup == 1.0
    older = make.evaluation(speedup=9.9, evaluated_at="2025-01-01T00:00:00+00:00")
    assert 9.9 not in [score.speedup for score in place.keep(make.code(), older, FROM).record.scores]


def test_a_new_policy_replaces_the_scores_of_its_task_on_its_hardware(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    for evaluation in (
        make.evaluation(speedup=2.0, config=EvaluationConfig(trials=3)),
        make.evaluation(speedup=3.0, config=EvaluationConfig(baselines=("eager",))),
        make.evaluation(speedup=4.0, device="NVIDIA H200"),
        make.evaluation(speedup=5.0, config=EvaluationConfig(shapes="small")),
    ):
        kept = place.keep(make.code(), evaluation, FROM)
    place.replace_scores(kept, make.evaluation(speedup=1.5))
    (found,) = place.kernels()
    assert sorted(score.speedup or 0 for score in found.record.scores) == [1.5, 4.0, 5.0]
    place.drop_scores(found, make.evaluation(Status.WRONG_VALUES))
    (found,) = place.kernels()
    assert sorted(score.speedup or 0 for score in found.record.scores) == [4.0, 5.0]
    place.drop_scores(found, make.evaluation(Status.REJECTED))
    assert not list(place.kernels())


def test_an_evaluation_withdraws_its_own_policy_unless_it_fails_for_good(tmp_path: Path, make: Make) -> None:
    place, strict = Workspace(tmp_path), EvaluationConfig(trials=50)
    for config in (EvaluationConfig(), strict, EvaluationConfig(math=Math.TF32)):
        kept = place.keep(make.code(), make.evaluation(config=config), FROM)

    def left() -> list[tuple[int, str]]:
        return [(score.config.trials, score.config.math) for score in place.kernel(kept.id).record.scores]

    place.withdraw(make.evaluation(speedup=0.5))
    assert sorted(left()) == [(7, "tf32"), (50, "fp32")]
    place.withdraw(make.evaluation(Status.COMPILE_ERROR, config=strict))
    assert left() == [(7, "tf32")]
    place.keep(make.code(), make.evaluation(), FROM)
    place.withdraw(make.evaluation(Status.TAMPERED))
    assert not list(place.kernels())


def test_a_kernel_that_is_gone_has_nothing_to_lose(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    for config in (EvaluationConfig(), EvaluationConfig(math=Math.TF32)):
        kept = place.keep(make.code(), make.evaluation(config=config), FROM)
    for config in (EvaluationConfig(), EvaluationConfig(math=Math.TF32)):
        place.drop_scores(kept, make.evaluation(Status.REJECTED, config=config))
    place.replace_scores(kept, make.evaluation())
    assert not list(place.kernels())


def test_processes_that_save_at_once_lose_no_score(tmp_path: Path, make: Make) -> None:
    def save(first: int) -> None:
        for trials in range(first, first + 15):
            config = EvaluationConfig(trials=trials)
            Workspace(tmp_path).keep(make.code(), make.evaluation(config=config), FROM)

    processes = [multiprocessing.get_context("fork").Process(target=save, args=(first,)) for first in (1, 21)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    (kernel,) = Workspace(tmp_path).kernels()
    assert len(kernel.record.scores) == 30


@pytest.mark.parametrize("name", ["..", "level1/..", "a/.", "", "x\0y"])
def test_a_problem_whose_name_leads_elsewhere_stays_in_its_backend(
    tmp_path: Path, make: Make, name: str
) -> None:
    place = Workspace(tmp_path)
    evaluation = make.evaluation(problem=make.problem(name.replace("\0", "")).model_copy(update={"id": name}))
    kept = place.keep(make.code(), evaluation, FROM)
    assert kept.folder.resolve().parents[1] == place.generated.resolve() / "cpp"
    assert list(place.kernels()) == [kept]
    assert place.fastest(evaluation) == evaluation


def test_the_fastest_saved_kernel_is_of_the_same_problem_and_policy(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    assert place.fastest(make.evaluation()) is None
    for number, (speedup, changes) in enumerate(
        (
            (2.0, {}),
            (3.0, {"backend": "cuda"}),
            (9.0, {"config": EvaluationConfig(trials=3)}),
            (8.0, {"problem": make.problem("level2/01_add")}),
        )
    ):
        source = make.code(number)
        place.keep(source, make.evaluation(source=source, speedup=speedup, **changes), FROM)
    found = place.fastest(make.evaluation(speedup=1.0))
    assert found is not None and (found.speedup, found.backend) == (3.0, "cuda")


def test_a_taken_short_id_grows(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ID_DIGITS", 1)
    place = Workspace(tmp_path)
    for number in range(40):
        source = make.code(number)
        place.keep(source, make.evaluation(source=source), FROM)
    kernels = list(place.kernels())
    assert len(kernels) == 40
    assert {kernel.record.sha for kernel in kernels} == {
        Candidate(source=make.code(number), backend="cpp").sha for number in range(40)
    }
    assert all(kernel.record.sha.startswith(kernel.id) for kernel in kernels)


def test_the_same_source_for_another_problem_of_that_name_is_another_kernel(
    tmp_path: Path, make: Make
) -> None:
    place = Workspace(tmp_path)
    for name in ("level1/01_add", "level2/01_add"):
        place.keep(make.code(), make.evaluation(problem=make.problem(name)), FROM)
    assert [kernel.record.problem for kernel in place.kernels()] == ["level1/01_add", "level2/01_add"]


def test_an_unknown_or_unclear_name_is_said(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    for number in range(3):
        place.keep(make.code(number), make.evaluation(source=make.code(number)), FROM)
    with pytest.raises(UnknownKernel, match="no saved kernel 'zz'"):
        place.kernel("zz")
    with pytest.raises(UnknownKernel, match="could be"):
        place.kernel("")


def test_an_edited_kernel_or_damaged_score_is_said(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    kept = place.keep(make.code(), make.evaluation(), FROM)
    (kept.folder / "kernel.py").write_text("import os")
    with pytest.raises(ArchiveError, match="not the source that was scored"):
        place.kernel(kept.id)
    (kept.folder / "score.json").write_text("{}")
    with pytest.raises(ArchiveError, match="damaged"):
        place.kernel(kept.id)
    (kept.folder / "score.json").write_text('{"schema_version": 99}')
    with pytest.raises(ArchiveError, match="newer"):
        place.kernel(kept.id)


def test_a_kernel_under_the_id_of_another_is_damaged(tmp_path: Path, make: Make) -> None:
    place = Workspace(tmp_path)
    kept = place.keep(make.code(), make.evaluation(), FROM)
    other = place.keep(make.code(1), make.evaluation(source=make.code(1)), FROM)
    shutil.rmtree(kept.folder)
    other.folder.rename(kept.folder)
    with pytest.raises(ArchiveError, match=f"{kept.id} holds another kernel, {other.id}"):
        place.kernel(kept.id)


@pytest.mark.parametrize("name", ["kernel.py", "score.json"])
def test_one_malformed_file_costs_only_its_kernel(tmp_path: Path, make: Make, name: str) -> None:
    place = Workspace(tmp_path)
    sound = place.keep(make.code(), make.evaluation(), FROM)
    for number in (1, 2, 3):
        place.keep(make.code(number), make.evaluation(source=make.code(number)), FROM)
    deep, folder, dangling = (kernel.folder / name for kernel in place.kernels() if kernel != sound)
    deep.write_text("[" * 100_000)
    folder.unlink()
    folder.mkdir()
    dangling.unlink()
    dangling.symlink_to(tmp_path / "nowhere")
    damaged: list[Path] = []
    assert list(place.kernels(lambda path, _: damaged.append(path))) == [sound]
    assert {deep.parent, folder.parent} <= set(damaged)
    assert place.fastest(make.evaluation()) == sound.score


def test_windows_newlines_in_a_source_survive(tmp_path: Path, make: Make) -> None:
    source = make.code().replace("\n", "\r\n")
    kept = Workspace(tmp_path).keep(source, make.evaluation(source=source), FROM)
    assert Workspace(tmp_path).kernel(kept.id).source == source


@pytest.mark.parametrize("name", ["score.json", "kernel.py"])
def test_a_pipe_or_a_link_in_the_place_of_a_file_is_a_damaged_kernel(
    tmp_path: Path, make: Make, name: str
) -> None:
    place = Workspace(tmp_path)
    piped, linked, sound = (
        place.keep(make.code(mark), make.evaluation(source=make.code(mark)), FROM) for mark in range(3)
    )
    (linked.folder / name).rename(tmp_path / name)
    (linked.folder / name).symlink_to(tmp_path / name)
    (piped.folder / name).unlink()
    os.mkfifo(piped.folder / name)
    damaged: list[str] = []
    assert [kernel.id for kernel in place.kernels(lambda folder, _: damaged.append(folder.name))] == [
        sound.id
    ]
    assert sorted(damaged) == sorted((piped.id, linked.id))
    again = place.keep(make.code(0), make.evaluation(source=make.code(0)), FROM)
    assert again.id == piped.id if name == "kernel.py" else again.id.startswith(piped.id)
