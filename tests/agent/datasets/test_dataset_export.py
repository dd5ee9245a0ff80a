"""Exports of real archives: which attempts become rows, and what the rows hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from kernelwright.agent.archive import Archive, ArchiveError, resume_run
from kernelwright.agent.archive.text_store import TextStore
from kernelwright.agent.datasets import Filters, UnusableExport, find_exporter
from kernelwright.agent.datasets.dataset_export import DAMAGED
from kernelwright.agent.records.attempt_log import TextRef
from kernelwright.agent.records.messages import Message
from kernelwright.evaluator import EvaluationConfig, Finding, Passes, Status
from kernelwright.evaluator.schema.evaluation import Sanitization
from tests.agent.datasets.conftest import DATASET_FORMATS

if TYPE_CHECKING:
    from tests.agent.datasets.conftest import Desk


def test_supervised_rows_are_right_answers_in_both_shapes(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        right = desk.attempt(log, license="MIT")
        desk.attempt(log, Status.WRONG_VALUES, sample=1)
        desk.attempt(log, None, sample=2)
    rows = desk.rows("sft", table="messages", test=0)
    (row,) = rows
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    assert "class ModelNew" in row["messages"][-1]["content"]
    assert (row["source"]["attempt"], row["source"]["license"]) == (right.id, "MIT")
    assert row["source"]["speedup_low"] == 1.9
    assert row["prompt_tokens"] > 0 < row["completion_tokens"]
    (pair,) = desk.rows("sft", "again", table="prompt_completion", test=0)
    assert [*pair["prompt"], *pair["completion"]] == row["messages"]
    assert desk.manifest()["attempts"]["left_out"] == {"failed": 1, "not judged": 1}


@pytest.mark.parametrize(
    "marks", [("<think>", "</think>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]")]
)
def test_thoughts_are_dropped_or_kept_between_marks(desk: Desk, marks: tuple[str, str]) -> None:
    said = f"{marks[0]}hm{marks[1]}\nanswer"
    with desk.log("level1/01_add") as log:
        desk.attempt(log, said=said)
    dropped = desk.rows("sft", "one", table="messages")[0]
    kept = desk.rows("sft", "two", table="messages", reasoning="keep")[0]
    assert dropped["messages"][-1]["content"] == "answer"
    assert kept["messages"][-1]["content"] == said


def test_right_is_chosen_over_wrong_and_surely_faster_over_slower(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        fast = desk.attempt(log, speed=(3.0, 3.2), sample=0)
        slow = desk.attempt(log, speed=(1.0, 1.1), sample=1)
        near = desk.attempt(log, speed=(2.9, 3.1), sample=2)
        wrong = desk.attempt(log, Status.WRONG_VALUES, sample=3)
    pairs = {
        (row["chosen_source"]["attempt"], row["rejected_source"]["attempt"]): row["reason"]
        for row in desk.rows("preference")
    }
    assert pairs.pop((fast.id, wrong.id)) == "passed"
    assert {rejected for _, rejected in pairs} == {slow.id}
    assert set(pairs.values()) == {"faster"}
    assert near.id not in {rejected for _, rejected in pairs}


def test_speeds_on_other_hardware_make_no_pair(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, speed=(3.0, 3.2), sample=0, verdict={"device": "A"})
        desk.attempt(log, speed=(1.0, 1.1), sample=1, verdict={"device": "B"})
    assert desk.rows("preference") == []


def test_answers_to_other_prompts_make_a_pair_only_where_asked_for(desk: Desk) -> None:
    other = (Message(role="user", content="try again"),)
    with desk.log("level1/01_add") as log:
        desk.attempt(log, sample=0, strategy="refine", turn=1, prompt=other)
        desk.attempt(log, Status.COMPILE_ERROR, sample=0, strategy="refine", turn=0)
    assert desk.rows("preference", "one") == []
    (row,) = desk.rows("preference", "two", pairing="problem")
    assert row["prompt"][-1]["content"] == "make it fast"


def test_what_escaped_the_sanitizers_where_they_exist_is_never_an_example(desk: Desk) -> None:
    not_run = {"sanitization": Sanitization(ran=False, reason="out of time")}
    nothing = {"sanitization": Sanitization(ran=False, needed=False)}
    with desk.log("level1/01_add") as log:
        seen = desk.attempt(log, sample=0)
        desk.attempt(log, sample=1, verdict=not_run)
        needless = desk.attempt(log, sample=2, verdict=nothing)
        elsewhere = desk.attempt(log, sample=3, verdict={**not_run, "device": "no tools here"})
    used = {row["source"]["attempt"] for row in desk.rows("sft", table="messages")}
    assert used == {seen.id, needless.id, elsewhere.id}
    assert desk.manifest()["attempts"]["left_out"] == {"doubt: not sanitized where the tools exist": 1}


def test_a_source_once_convicted_is_never_an_example(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, Status.TAMPERED, code="class ModelNew: one = 1\n", sample=0)
    with desk.log("level1/01_add") as log:
        desk.attempt(log, code="class ModelNew: one = 1\n", sample=0)
    assert desk.rows("sft", filters=Filters(runs=(log.run,))) == []


def test_a_pass_on_a_flawed_problem_is_never_an_example(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, verdict={"problem_flaws": ("constant_output",)})
    assert desk.rows("unpaired") == []


def test_repeats_are_left_out_whatever_their_names_and_comments(desk: Desk) -> None:
    code = "class ModelNew(torch.nn.Module):\n    def forward(self, {0}):\n        return {0} * 2\n"
    with desk.log("level1/01_add") as log:
        desk.attempt(log, code=code.format("x"), sample=0)
        desk.attempt(log, code=code.format("y") + "# a word\n", sample=1)
        desk.attempt(log, Status.WRONG_VALUES, code=code.format("z"), sample=2)
    assert [row["label"] for row in desk.rows("unpaired", "one")] == [True, False]
    assert len(desk.rows("unpaired", "two", dedup="none")) == 3


def test_filters_choose_attempts(desk: Desk) -> None:
    with desk.log("level1/01_add", "level1/02_mul") as log:
        desk.attempt(log, sample=0, license="MIT", model="a", speed=(3.0, 3.1))
        desk.attempt(log, sample=1, problem="level1/02_mul", verdict={"track": "library"}, model="b")
        desk.attempt(log, Status.WRONG_VALUES, sample=2, backend="cuda", verdict={"device": "H200"})

    def count(name: str, **filters: object) -> int:
        return len(desk.rows("attempts", name, filters=Filters.model_validate(filters)))

    assert count("a", tracks=["own"]) == 2
    assert count("b", models=["b"]) == 1
    assert count("c", licenses=["MIT"]) == 1
    assert count("d", min_speedup=2.5) == 2
    assert count("e", statuses=[Status.WRONG_VALUES]) == 1
    assert count("f", hardware=["H200"]) == 1
    assert count("g", backends=["cuda"]) == 1
    assert count("h", problems=["02"]) == 1
    assert desk.manifest("b")["attempts"] == {"seen": 3, "used": 1, "left_out": {"filter: model": 2}}


def test_prompts_for_reinforcement_learning_carry_their_verifier(desk: Desk) -> None:
    plan = json.dumps({"config": {"shapes": "small", "math": "tf32"}})
    with desk.make.log(desk.root, plan=plan, problems=(problem := desk.make.problem(),)) as log:
        desk.attempt(log, problem=problem, sample=0)
        desk.attempt(log, None, problem=problem, sample=1)
    (row,) = desk.rows("rl")
    assert row["prompt"][-1] == {"role": "user", "content": "make it fast"}
    assert (row["problem"], row["problem_sha"], row["backend"]) == (problem.id, problem.sha, "cpp")
    assert row["reference"] == problem.source
    assert json.loads(row["verifier"])["shapes"] == "small"


def test_a_conversation_is_one_row_with_a_reward_for_every_turn(desk: Desk) -> None:
    opening = (Message(role="user", content="go"),)

    def after(said: str, feedback: str) -> tuple[Message, ...]:
        return (*opening, Message(role="assistant", content=said), Message(role="user", content=feedback))

    with desk.log("level1/01_add") as log:
        common = {"strategy": "refine", "sample": 0}
        desk.attempt(log, said="one", turn=0, prompt=opening, speed=(1.0, 1.2), **common)
        cheat = {"findings": (Finding(rule="patching", message="m", fatal=True),)}
        desk.attempt(
            log, Status.REJECTED, said="two", turn=1, prompt=after("one", "faster"), verdict=cheat, **common
        )
        desk.attempt(log, said="three", turn=2, prompt=after("one", "not so"), speed=(50.0, 60.0), **common)
        desk.attempt(log, said="alone", sample=1)
    rows = desk.rows("trajectories")
    talk = next(row for row in rows if len(row["turns"]) == 3)
    assert [message["content"] for message in talk["messages"]] == [
        "go",
        "one",
        "faster",
        "two",
        "not so",
        "three",
    ]
    assert talk["rewards"] == [1.3, -1.0, 10.3]
    assert [(turn["message"], turn["continues"]) for turn in talk["turns"]] == [(1, -1), (3, 1), (5, 1)]
    assert not talk["is_linear"]
    assert [row["is_linear"] for row in rows if row is not talk] == [True]


def test_turns_scored_on_two_devices_are_two_rows(desk: Desk) -> None:
    opening = (Message(role="user", content="go"),)
    busy = desk.make.measurement(9.0).model_copy(update={"contended": True})
    verdicts: list[dict[str, object]] = [
        {},
        {"measurement": busy},
        {"device": "Other CPU"},
        {"device": "Other CPU"},
    ]
    with desk.log("level1/01_add") as log:
        said: list[Message] = []
        for turn, verdict in enumerate(verdicts):
            prompt = (*opening, *said)
            desk.attempt(log, said=f"{turn}", turn=turn, prompt=prompt, strategy="refine", verdict=verdict)
            said += [Message(role="assistant", content=f"{turn}"), Message(role="user", content="more")]
        desk.attempt(log, Status.COMPILE_ERROR, said="4", turn=4, prompt=(*opening, *said), strategy="refine")
    rows = desk.rows("trajectories")
    assert [[turn["turn"] for turn in row["turns"]] for row in rows] == [[0, 1], [2, 3, 4]]
    assert len({turn["policy"] for row in rows for turn in row["turns"]}) == 3
    assert "other work disturbed" in rows[0]["turns"][1]["unfit"] and rows[0]["rewards"][1] == 0.0
    assert [message["content"] for message in rows[1]["messages"]][-1] == "4"
    card = (desk.root / "data" / "README.md").read_text()
    assert "Other CPU · fp32 math" in card and "Test CPU · fp32 math" in card and "contended" in card
    assert sorted(desk.manifest()["policies"].values()) == [2, 2]


def test_of_repeats_on_two_devices_the_number_decides_nothing(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, code=SOURCES[0], speed=(1.0, 1.2))
        desk.attempt(log, code=SOURCES[0], sample=1, speed=(5.0, 6.0), verdict={"device": "Other CPU"})
    (row,) = desk.rows("sft", table="messages")
    assert row["source"]["hardware"] == "Test CPU"


def test_a_failure_under_another_policy_makes_no_pair(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log)
        desk.attempt(log, Status.WRONG_VALUES, sample=1, verdict={"scoring_rules": 9})
    assert desk.rows("preference") == []


def test_problems_with_one_reference_fall_on_one_side(desk: Desk) -> None:
    names = [f"level1/{number:02}_p" for number in range(12)]
    problems = [desk.reference(name) for name in names]
    renamed = [
        desk.reference(name, first="tensor").model_copy(update={"id": f"other/{number}"})
        for number, name in enumerate(names)
    ]
    with desk.log(*problems, *renamed) as log:
        for problem in (*problems, *renamed):
            desk.attempt(log, problem=problem)
    sides: dict[str, str] = {row["problem"]: row["split"] for row in desk.rows("attempts", test=0.5)}
    assert set(sides.values()) == {"train", "test"}
    assert all(sides[name] == sides[f"other/{number}"] for number, name in enumerate(names))


def test_problems_of_a_benchmark_are_left_out_even_when_they_look_different(desk: Desk) -> None:
    folder = desk.root / "benchmark"
    folder.mkdir()
    looks = desk.reference("level1/03_c", first="tensor").source + "# the same\n"
    (folder / "1_c.py").write_text(looks)
    with desk.log("level1/03_c", "level1/04_d") as log:
        desk.attempt(log, problem="level1/03_c")
        desk.attempt(log, problem="level1/04_d")
    (row,) = desk.rows("attempts", decontaminate=(str(folder),))
    assert row["problem"] == "level1/04_d"
    assert desk.manifest()["attempts"]["left_out"] == {"decontamination": 1}
    with pytest.raises(UnusableExport, match="no such problem"):
        desk.export("attempts", "other", decontaminate=(str(desk.root / "missing"),))


def test_a_folder_with_contents_is_never_written_to(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    with pytest.raises(UnusableExport, match="not empty"):
        desk.export("sft")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_card_says_how_to_make_it_again_and_declares_every_file(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, license="Apache-2.0")
    folder = desk.export("sft", test=0).folder
    text = (folder / "README.md").read_text()
    assert "kernelwright export sft" in text
    assert 'license: "apache-2.0"' in text
    declared = {line.split('"')[1] for line in text.splitlines() if 'path: "' in line}
    assert declared == {"messages/train.jsonl", "prompt_completion/train.jsonl"}
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == sorted(
        [*declared, "README.md", "manifest.json"]
    )


def test_scores_with_and_without_gradients_make_no_pair(desk: Desk) -> None:
    backward = {"config": EvaluationConfig(passes=Passes.FORWARD_BACKWARD)}
    with desk.log("level1/01_add") as log:
        desk.attempt(log, speed=(2.9, 3.1))
        desk.attempt(log, speed=(1.0, 1.1), sample=1, verdict=backward)
        desk.attempt(log, Status.WRONG_VALUES, sample=2, verdict=backward)
    pairs = desk.rows("preference")
    assert [(row["chosen_source"]["sample"], row["rejected_source"]["sample"]) for row in pairs] == [(1, 2)]
    passes = {row["sample"]: row["passes"] for row in desk.rows("attempts", "whole")}
    assert passes == {0: "forward", 1: "forward_backward", 2: "forward_backward"}


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"licenses": ("MTI",)}, "--license 'MTI' fits no attempt; there are: MIT"),
        ({"models": ("model-b",)}, "--model 'model-b' fits no attempt; there are: model-a"),
        ({"hardware": ("H200",)}, "--hardware 'H200' fits no attempt; there are: Test CPU"),
        ({"problems": ("ad", "sub")}, "--problem 'sub' fits no attempt"),
    ],
)
def test_a_filter_that_fits_nothing_at_all_is_refused(
    desk: Desk, filters: dict[str, tuple[str, ...]], words: str
) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, license="MIT")
    with pytest.raises(UnusableExport, match=words):
        desk.export("attempts", filters=Filters(**filters))
    assert not (desk.root / "data").exists()


def test_filters_take_names_in_capitals_or_not(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log, license="MIT")
    filters = Filters(licenses=("mit",), models=("model-a",), hardware=("test",))
    assert len(desk.rows("attempts", filters=filters)) == 1


@pytest.mark.parametrize("filters", [{"tracks": ("onw",)}, {"min_speedup": float("nan")}])
def test_a_filter_that_cannot_be_is_refused(filters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Filters.model_validate(filters)


SOURCES = [f"class ModelNew:\n    def {name}(self): ...\n" for name in ("one", "two", "three")]


@pytest.mark.parametrize("format", DATASET_FORMATS)
def test_a_missing_text_costs_its_attempt_alone(desk: Desk, format: str) -> None:
    with desk.log("level1/01_add") as log:
        said = [f"Here: {'words ' * 400}\n\n```python\n{code}```\n" for code in SOURCES]
        desk.attempt(log, code=SOURCES[0], said=said[0], sample=0)
        desk.attempt(
            log, code=SOURCES[1], said=said[1], sample=1, prompt=(Message(role="user", content="another"),)
        )
        desk.attempt(log, Status.WRONG_VALUES, code=SOURCES[2], said=said[2], sample=2)
    lost = list(desk.archive.attempts())[1].completion.reply
    assert isinstance(lost, TextRef)
    TextStore(log.folder / "texts").path(lost).unlink()
    exported = desk.export(format)
    assert exported.rows
    assert exported.left_out[DAMAGED] == 1


def test_a_damaged_line_costs_only_itself(desk: Desk) -> None:
    for sample in range(2):
        with desk.log("level1/01_add") as log:
            desk.attempt(log, sample=sample)
    path = log.folder / "attempts.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0][:50], *lines[1:]]))
    told: list[str] = []
    exporter = find_exporter("attempts")
    exported = exporter.write(
        Archive(desk.root / "runs", told.append), desk.root / "data", exporter.settings()
    )
    assert exported.used == 2
    assert all("damaged" in line for line in told)
    with pytest.raises(ArchiveError, match="damaged"):
        desk.export("attempts", "other")


@pytest.mark.parametrize("beginning", ["edited", "lost"])
def test_a_copied_run_is_said_and_counts_nothing_twice(desk: Desk, beginning: str) -> None:
    with desk.log("level1/01_add") as log:
        desk.attempt(log)
    copy = log.folder.with_name("20990101-000000-000-abcd")
    shutil.copytree(log.folder, copy)
    first, *rest = (copy / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    first = first.replace(log.run.encode(), copy.name.encode()) if beginning == "edited" else b"{}\n"
    (copy / "attempts.jsonl").write_bytes(b"".join((first, *rest)))
    told: list[str] = []
    archive = Archive(desk.root / "runs", told.append)
    exporter = find_exporter("attempts")
    exported = exporter.write(archive, desk.root / "data", exporter.settings())
    assert (exported.seen, exported.used) == (1, 1)
    assert any(f"holds run {log.run}" in line and "is there already" in line for line in told)
    with pytest.raises(ArchiveError):
        resume_run(archive, copy.name)


def test_an_attempt_whose_id_is_there_already_is_left_out(desk: Desk) -> None:
    with desk.log("level1/01_add") as log:
        first = desk.attempt(log)
    with desk.log("level1/01_add") as other:
        forged = desk.attempt(other)
    path = other.folder / "attempts.jsonl"
    path.write_text(path.read_text().replace(forged.id, first.id))
    exported = desk.export("attempts")
    assert (exported.used, exported.left_out) == (1, {"its id is there already": 1})
