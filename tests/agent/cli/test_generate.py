"""Replies asked for in bulk or one by one, judged later or at once; nothing is asked or paid for twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.records.attempt_log import ProviderFailed, RunEnd, RunFinished
from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command, Quick, block, without
from tests.agent.providers.bulk import BatchEndpoint, error, reply, serving

RIGHT = block("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))")
PRICES = '[[price]]\nmodels = ["m"]\ninput = "2"\noutput = "8"\nbatch = "0.5"\n'


def said(body: dict[str, Any], number: int, text: str) -> dict[str, Any]:
    """An answer in a batch."""
    answer = reply(body, number)
    answer["body"]["choices"][0]["message"]["content"] = text
    return answer


@contextmanager
def bulk(quick: Quick, endpoint: BatchEndpoint, folder: Path) -> Iterator[tuple[str, ...]]:
    """Arguments that ask the endpoint for three samples of the quick problem."""
    (folder / "prices.toml").write_text(PRICES)
    (folder / "run.toml").write_text(f'prices = ["{folder / "prices.toml"}"]\n')
    kept = without(quick, "--turns", "--recordings")
    with serving(endpoint) as url:
        asked = ("--batch-api", "--base-url", url, "-m", "m", "-n", "3")
        yield (*kept, *asked, "--config", f"{folder}/run.toml")


def attempts(folder: Path) -> list[Any]:
    return sorted(Workspace(folder).archive().attempts(), key=lambda attempt: attempt.key.sample)


def last_end(folder: Path) -> RunFinished:
    archive = Workspace(folder).archive()
    (run,) = archive.runs()
    return [line for line in archive.lines(run) if isinstance(line, RunFinished)][-1]


def test_samples_asked_in_bulk_are_judged_by_a_resume(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    numbers = iter(range(9))

    def answer(body: dict[str, Any], number: int) -> dict[str, Any]:
        return said(body, number, RIGHT if next(numbers) == 1 else "No code.")

    endpoint = BatchEndpoint(answer, polls_before_end=2)
    with bulk(quick, endpoint, tmp_path) as arguments:
        away = kernelwright("generate", *arguments, "--no-wait")
        assert (away.exit_code, "3 replies are still to come" in away.stdout) == (0, True), away.output
        early = kernelwright("run", "--resume", "last", "--quiet")
        assert (early.exit_code, "3 replies are still to come" in early.stdout) == (3, True), early.output
        back = kernelwright("generate", "--resume", "last", "--poll", "1s")
        assert (back.exit_code, "3 replies wait to be evaluated" in back.stdout) == (0, True), back.output
        nothing = kernelwright("generate", "--resume", "last")
        assert nothing.exit_code == 0, nothing.output
    assert len(endpoint.batches) == 1
    assert [attempt.status for attempt in attempts(tmp_path)] == [None] * 3
    judged = kernelwright("run", "--resume", "last", "--quiet")
    assert judged.exit_code == 0, judged.output
    found = attempts(tmp_path)
    assert sorted(attempt.status for attempt in found) == ["NO_CODE", "NO_CODE", "PASSED"]
    assert [attempt.completion.cost_usd for attempt in found] == [0.003] * 3
    assert {attempt.completion.provider for attempt in found} == {"openai-batch"}
    assert [attempt.key.sample for attempt in found] == [0, 1, 2]
    assert last_end(tmp_path).end is RunEnd.COMPLETE


def test_a_kill_between_submitting_and_collecting_asks_nothing_twice(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    endpoint = BatchEndpoint(lambda body, number: said(body, number, "No code."), polls_before_end=3)
    with bulk(quick, endpoint, tmp_path) as arguments:
        more = ("--json-lines", "--poll", "60s")
        command = [sys.executable, "-m", "kernelwright.agent.cli", "generate", *arguments, *more]
        environment = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        root = str(Path(__file__).parents[3])
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": root},
        ) as process:
            assert process.stdout is not None
            assert not json.loads(next(process.stdout))["judges"]
            for line in process.stdout:
                if json.loads(line)["event"] == "Waiting":
                    break
            process.kill()
        # The prompt may read otherwise by now: what was asked is what counts.
        result = kernelwright("generate", "--resume", "last", "--poll", "1s", "--quiet")
    assert result.exit_code == 0, result.output
    assert (len(endpoint.batches), set(endpoint.asked.values())) == (1, {1})
    assert [attempt.completion.outcome for attempt in attempts(tmp_path)] == ["NO_CODE"] * 3


def test_expired_and_refused_parts_of_a_batch(kernelwright: Command, tmp_path: Path, quick: Quick) -> None:
    seen: list[str] = []

    def answer(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        seen.append(body["model"])
        match len(seen):
            case 1:
                return said(body, number, "No code.")
            case 2:
                return error(400, "too long")
            case 3:
                return None
            case _:
                return said(body, number, "No code either.")

    endpoint = BatchEndpoint(answer, end=lambda number: "completed" if number else "expired")
    with bulk(quick, endpoint, tmp_path) as arguments:
        result = kernelwright("generate", *arguments, "--poll", "1s", "--evaluate")
    assert result.exit_code == 3, result.output
    assert "no reply" in result.stderr
    assert "too long" in result.output
    assert (len(endpoint.batches), sorted(endpoint.asked.values())) == (2, [1, 1, 2])
    assert [attempt.status for attempt in attempts(tmp_path)] == ["NO_CODE", "NO_CODE"]
    archive = Workspace(tmp_path).archive()
    failures = [line for line in archive.lines(archive.find()) if isinstance(line, ProviderFailed)]
    assert [line.message for line in failures] == ["the request was refused (400): too long"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--max-cost", "1"), "bound it by --max-attempts"),
        (("--fallback", "base_url=http://localhost:1"), "answered by one endpoint"),
        (("--provider", "replay", "-m", "replay-handwritten"), "needs a live endpoint"),
    ],
)
def test_what_bulk_cannot_do_is_said(
    kernelwright: Command, tmp_path: Path, quick: Quick, more: tuple[str, ...], words: str
) -> None:
    with bulk(quick, BatchEndpoint(reply), tmp_path) as arguments:
        result = kernelwright("generate", *arguments, *more)
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
    assert not (tmp_path / "runs").exists()


def test_generate_asks_without_judging_and_a_budget_bounds_it(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    result = kernelwright("generate", *without(quick, "--turns"), "-n", "3", "--max-attempts", "2", "--quiet")
    assert "budget of 2 attempts reached" in result.stdout
    assert [attempt.status for attempt in attempts(tmp_path)] == [None, None]
    (tmp_path / "replies/twice/cpp/00.md").write_text("No code.")
    other = kernelwright("run", *quick, "--max-attempts", "1", "--quiet")
    assert (other.exit_code, "budget of 1 attempts" in other.stdout) == (1, True), other.output
    refused = kernelwright("generate", "--resume", "last")
    assert (refused.exit_code, "independent samples" in refused.stderr) == (2, True)


def test_a_run_can_be_done_again_from_the_settings_in_its_folder(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    arguments = without(quick, "--turns")
    first = kernelwright("generate", *arguments, "-n", "2", "--set", "sampling.top_p=0.9", "--quiet")
    assert first.exit_code == 0, first.output
    (settings,) = tmp_path.glob("runs/*/settings.toml")
    again = kernelwright("generate", "--config", str(settings), "--quiet")
    assert again.exit_code == 0, again.output
    archive = Workspace(tmp_path).archive()
    one, other = archive.runs()
    assert archive.started(one).settings == archive.started(other).settings == settings.read_text()
    assert {attempt.completion.sampling.top_p for attempt in archive.attempts()} == {0.9}


def test_a_spent_budget_is_raised_by_the_command_that_the_end_names(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    arguments = without(quick, "--turns")
    spent = kernelwright("generate", *arguments, "-n", "3", "--max-attempts", "1", "--quiet")
    (line,) = (line for line in spent.stdout.splitlines() if line.startswith("raise it"))
    assert line.endswith("--max-attempts 2")
    raised = kernelwright("generate", *line.split()[4:], "--quiet")
    assert "budget of 2 attempts reached" in raised.stdout
    assert len(attempts(tmp_path)) == 2
