"""Complete runs through the command line: the replay server, the real client, the real evaluator."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from tests.agent.cli.conftest import Command, Quick, block


def test_a_run_asks_judges_repairs_keeps_and_reports(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    result = kernelwright("run", *quick)
    assert result.exit_code == 0, result.output
    assert "no key is set: replaying recorded replies" in result.stderr
    assert "WRONG_VALUES" in result.stderr
    assert "PASSED" in result.stderr
    (log,) = (tmp_path / "runs").iterdir()
    assert str(log) in result.stdout
    assert "replay-handwritten" in result.stdout

    kernels = json.loads(kernelwright("kernels", "list", "--json").stdout)
    assert [kernel["problem"] for kernel in kernels] == ["twice"]
    shown = json.loads(kernelwright("show", kernels[0]["kernel"], "--json").stdout)
    assert "addcmul" in shown["source"]
    assert "torch.addcmul" in kernelwright("show", kernels[0]["kernel"]).stdout

    standing = json.loads(kernelwright("leaderboard", "--json").stdout)
    assert standing["entries"]
    assert kernelwright("leaderboard", "--csv").stdout.count("\n") == 2
    assert "replay-handwritten" in kernelwright("leaderboard").stdout

    again = kernelwright("verify", "--problem", quick[0], "--json")
    assert [entry["outcome"] for entry in json.loads(again.stdout)] == ["reproduced"]
    assert again.exit_code == 0

    resumed = kernelwright("run", "--resume", "last")
    assert resumed.exit_code == 0
    assert "2 replies" in resumed.stdout


def test_events_are_json_lines_and_nothing_else(kernelwright: Command, quick: Quick) -> None:
    result = kernelwright("run", *quick, "--json-lines")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events][:2] == ["RunOpened", "AssignmentStarted"]
    assert events[-1]["event"] == "RunClosed"
    times = [datetime.fromisoformat(event["at"]) for event in events]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)
    judged = [event["status"] for event in events if event["event"] == "Judged"]
    assert judged == ["WRONG_VALUES", "PASSED"]


def test_replies_can_be_recorded_and_replayed(kernelwright: Command, tmp_path: Path, quick: Quick) -> None:
    kept = tmp_path / "kept"
    assert kernelwright("run", *quick, "--record", str(kept), "--quiet").exit_code == 0
    again = tuple(str(kept) if item == str(tmp_path / "replies") else item for item in quick)
    result = kernelwright("run", *again, "--quiet")
    assert result.exit_code == 0
    assert "2 replies, 1 passed" in result.stdout


def test_a_run_keeps_to_its_plan_when_it_is_resumed(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    config = tmp_path / "run.toml"
    config.write_text('strategy = "sample"\n[evaluation]\nmeasure = false\n')
    arguments = [item for item in quick if item not in ("--turns", "2")]
    assert kernelwright("run", *arguments, "--config", str(config), "--quiet").exit_code == 1
    refused = kernelwright("run", "--resume", "last", "--model", "other")
    assert refused.exit_code == 2
    assert "leave out: models" in refused.stderr


def test_imported_replies_are_matched_judged_and_kept(
    kernelwright: Command, tmp_path: Path, quick: Quick
) -> None:
    (tmp_path / "reply.txt").write_text(f"# Problem: 7_Twice\n# Model: someone\n\n{block('x * 2 + 1')}")
    (tmp_path / "cut.txt").write_text("# Problem: elsewhere\n\n<think>\nlet me")
    policy = ("--problem", quick[0], "--shapes", "tiny", "--no-time", "--cache", str(tmp_path / "cache"))
    recorded = kernelwright("import", "reply.txt", "cut.txt", *policy, "--json")
    assert [entry["outcome"] for entry in json.loads(recorded.stdout)] == ["CODE", "TRUNCATED"]
    judged = kernelwright("import", "reply.txt", *policy, "--backend", "cpp", "--evaluate", "--json")
    (entry,) = json.loads(judged.stdout)
    assert (entry["status"], entry["model"], entry["problem"]) == ("PASSED", "someone", "twice")
    assert judged.exit_code == 0
    assert len(json.loads(kernelwright("kernels", "list", "--json").stdout)) == 1


def test_a_doubtful_or_missing_match_is_said(kernelwright: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"# Problem: 6_Matmul_with_large_K_dimension_\n\n{block('x')}")
    (tmp_path / "b.txt").write_text(block("x"))
    result = kernelwright("import", "a.txt", "b.txt")
    assert result.exit_code == 0
    assert "doubtful" in result.stdout
    assert "not said" in result.stdout
