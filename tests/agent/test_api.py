"""The public API: every name, an evaluation, a run, and what is made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kernelwright
from tests.agent.cli.conftest import MODEL, PROBLEM, block


@pytest.mark.parametrize("name", kernelwright.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(kernelwright, name).__doc__
    assert name in dir(kernelwright)


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        kernelwright.evaluat  # noqa: B018  # the attribute access is what is tested


def test_importing_it_loads_one_module() -> None:
    code = (
        "import sys; before = set(sys.modules); import kernelwright; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [name for name in done.stdout.split("'") if name.startswith("kernelwright")]
    assert ours == ["kernelwright"]


def test_a_kernel_is_evaluated(tmp_path: Path, shared_cache: Path) -> None:
    (tmp_path / "twice.py").write_text(PROBLEM)
    (file,) = kernelwright.find_problems([tmp_path])
    problem = kernelwright.read_problem(file)
    config = kernelwright.EvaluationConfig(
        shapes="tiny", measure=False, limits=kernelwright.Limits(total_s=300)
    )
    candidate = kernelwright.Candidate(source=MODEL.format("x * 2"), backend="cpp")
    evaluation = kernelwright.evaluate(problem, candidate, config, cache=shared_cache)
    assert evaluation.status is kernelwright.Status.WRONG_VALUES


def test_a_batch_runs_without_a_terminal(tmp_path: Path, shared_cache: Path) -> None:
    (tmp_path / "twice.py").write_text(PROBLEM)
    replies = tmp_path / "replies" / "twice" / "cpp"
    replies.mkdir(parents=True)
    (replies / "00.md").write_text(block("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))"))
    settings = kernelwright.RunSettings(
        problems=(str(tmp_path / "twice.py"),),
        backends=("cpp",),
        provider="replay",
        recordings=str(tmp_path / "replies"),
        strategy="sample",
        evaluation=kernelwright.EvaluationConfig(shapes="tiny", measure=False, sanitize="off"),
        plain_build=False,
    )
    batch = kernelwright.run_batch(settings, workspace=tmp_path, cache=shared_cache)
    assert [attempt.status for attempt in batch.attempts] == ["PASSED"]
    (kernel,) = batch.kernels
    assert kernel.record.problem == "twice"
    archive = kernelwright.Workspace(tmp_path).archive()
    assert archive.runs() == [batch.summary.run_id]
    assert kernelwright.board(archive.attempts()).entries[0].solved == 1
    assert kernelwright.load_kernel(kernel.id, tmp_path, trust=True).__name__ == "ModelNew"
    exported = kernelwright.export("attempts", tmp_path / "data", workspace=tmp_path, test=0)
    assert exported.used == 1
    with pytest.raises(kernelwright.UsageError, match="did you mean seed"):
        kernelwright.export("attempts", tmp_path / "more", workspace=tmp_path, sead=1)
