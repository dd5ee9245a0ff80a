"""`kernels list`, `show` and `verify`, where nothing needs to be judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.agent.workspace import Kernel, Provenance, Workspace
from kernelwright.evaluator import EvaluationConfig, read_problem
from kernelwright.evaluator.host.hardware import cpu_name
from tests.agent.cli.conftest import ESCAPING, MODEL, Command, Quick

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def keep(make: Make, folder: Path, mark: object = 0, **made: str) -> Kernel:
    source = make.code(mark)
    return Workspace(folder).keep(source, make.evaluation(source=source), Provenance(**made))


def test_show_tells_what_was_said(kernelwright: Command, make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        attempt = make.attempt(log)
    kernel = keep(make, tmp_path, run=log.run, attempt=attempt.id)
    shown = json.loads(kernelwright("show", kernel.id, "--json").stdout)
    assert [message["role"] for message in shown["conversation"]] == ["system", "user", "assistant"]
    assert shown["conversation"][-1]["content"] == log.archive.reply(attempt.completion)
    text = kernelwright("show", kernel.id).stdout
    assert "--- user\nmake it fast\n" in text and "Here it is." in text


def test_show_says_where_its_run_is_not_here(kernelwright: Command, make: Make, tmp_path: Path) -> None:
    kernel = keep(make, tmp_path, run="20250101-000000-000-abcd", attempt="0" * 32)
    assert json.loads(kernelwright("show", kernel.id, "--json").stdout)["conversation"] is None
    assert "its run 20250101-000000-000-abcd is not here" in kernelwright("show", kernel.id).stdout


def test_names_of_strangers_never_steer_the_terminal(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    kernel = keep(make, tmp_path, model="\x1b[31mred", origin="\x1b[32mgreen")
    for arguments in (("kernels", "list"), ("show", kernel.id)):
        assert "\x1b" not in kernelwright(*arguments).stdout


def test_a_damaged_kernel_costs_only_itself(kernelwright: Command, make: Make, tmp_path: Path) -> None:
    sound, edited, torn = (keep(make, tmp_path, mark) for mark in range(3))
    (edited.folder / "kernel.py").write_text("import os\n")
    (torn.folder / "score.json").write_text("{")
    listed = kernelwright("kernels", "list", "--json")
    assert [kernel["kernel"] for kernel in json.loads(listed.stdout)] == [sound.id]
    assert listed.stderr.count("left out: ") == 2
    done = kernelwright("verify", "--json")
    outcomes = {entry["kernel"]: (entry["outcome"], entry["why"]) for entry in json.loads(done.stdout)}
    assert done.exit_code == 1
    assert outcomes[sound.id][0] == "not comparable"
    assert outcomes[edited.id][0] == outcomes[torn.id][0] == "damaged"
    assert "not the source that was scored" in outcomes[edited.id][1]
    assert kernelwright("verify", edited.id).exit_code == 1


def test_nothing_judged_is_no_success(kernelwright: Command, make: Make, tmp_path: Path) -> None:
    assert kernelwright("verify").exit_code == 0
    kernel = keep(make, tmp_path)
    done = kernelwright("verify", kernel.id)
    assert (done.exit_code, done.stderr) == (3, "kernelwright: 0 of 1 could be evaluated here\n")
    assert "problem level1/01_add not found; name its file with --problem" in done.stdout


def test_verify_finds_references_where_package_does(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log)
    # Sizes that its problem does not have: nothing needs to be started to find that out.
    evaluation = make.evaluation(config=EvaluationConfig(shapes="tiny"))
    kernel = Workspace(tmp_path).keep(make.code(), evaluation, Provenance(run=log.run))
    done = kernelwright("verify", kernel.id)
    assert done.exit_code == 3
    assert "tiny" in done.stdout and "not found" not in done.stdout


def test_a_score_cannot_ask_for_a_kernel_without_a_sandbox(
    kernelwright: Command, quick: Quick, make: Make, tmp_path: Path
) -> None:
    problem, mark = read_problem(Path(quick[0])), tmp_path / "escaped"
    source = MODEL.format("x * 2 + 1") + ESCAPING.format(str(mark))
    config = EvaluationConfig(shapes="tiny", measure=False, trials=1, sandbox="none")
    evaluation = make.evaluation(problem=problem, source=source, config=config, device=cpu_name())
    Workspace(tmp_path).keep(source, evaluation, Provenance())
    options = ("--problem", quick[0], "--cache", quick[-1], "--json")
    (found,) = json.loads(kernelwright("verify", *options).stdout)
    assert found["after"]["status"] == "PASSED"
    assert found["after"]["config"]["sandbox"] is None and not mark.exists()
    (found,) = json.loads(kernelwright("verify", *options, "--limit", "total_s=500").stdout)
    assert found["after"]["config"]["limits"]["total_s"] == 500


def test_rescore_puts_a_new_policy_in_place_of_old_ones_and_drops_what_fails(
    kernelwright: Command, quick: Quick, make: Make, tmp_path: Path
) -> None:
    problem, place = read_problem(Path(quick[0])), Workspace(tmp_path)
    for expression in ("torch.addcmul(torch.ones_like(x), x, torch.full_like(x, 2))", "x * 3"):
        source = MODEL.format(expression)
        for config in (EvaluationConfig(shapes="tiny", trials=3), EvaluationConfig(shapes="tiny", trials=4)):
            evaluation = make.evaluation(problem=problem, source=source, config=config, device=cpu_name())
            place.keep(source, evaluation, Provenance())
    policy = ("--no-time", "--problem", quick[0], "--cache", quick[-1], "--results", "results.jsonl")
    done = kernelwright("kernels", "rescore", *policy)
    assert done.exit_code == 1, done.output
    assert "2 of 2: 1 rescored, 1 failed" in done.stdout
    lost = done.stdout.splitlines()[-1].removeprefix("no longer what their scores say: ")
    again = kernelwright("kernels", "rescore", *policy, "--drop")
    assert "WRONG_VALUES" in again.stdout and "1 rescored, 1 failed" in again.stdout
    (kernel,) = place.kernels()
    assert kernel.id != lost
    assert [(score.config.trials, score.config.measure) for score in kernel.record.scores] == [(7, False)]


def test_a_source_that_is_shown_through_a_pipe_steers_no_terminal(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    source = make.code() + 'NOTE = """\x1b[2J\u202e\tnothing"""\n'
    kernel = Workspace(tmp_path).keep(source, make.evaluation(source=source), Provenance())
    shown = kernelwright("kernels", "show", kernel.id).stdout
    assert 'NOTE = """⟨U+001B⟩[2J⟨U+202E⟩\tnothing"""' in shown and "\x1b" not in shown
    assert json.loads(kernelwright("kernels", "show", kernel.id, "--json").stdout)["source"] == source


def test_no_text_of_a_stranger_passes_for_a_line_of_ours(
    kernelwright: Command, make: Make, tmp_path: Path
) -> None:
    forged = "reproduced      level1/01_add"
    problem = make.problem().model_copy(update={"id": f"level1/01_add\nffffffffffff  {forged}"})
    source = make.code()
    evaluation = make.evaluation(problem=problem, source=source)
    kernel = Workspace(tmp_path).keep(source, evaluation, Provenance(model=f"one\n{forged}"))
    for arguments in (("verify",), ("kernels", "list"), ("kernels", "show", kernel.id)):
        lines = kernelwright(*arguments).stdout.splitlines()
        assert not [told for told in lines if told.lstrip().startswith(("ffffffffffff", forged))], arguments
