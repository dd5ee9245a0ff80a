"""Properties of whole exports, over archives nobody thought of."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.evaluator import Finding, Status, problem_from_source
from kernelwright.evaluator.schema.evaluation import Sanitization
from tests.agent.datasets.conftest import DATASET_FORMATS

if TYPE_CHECKING:
    from tests.agent.conftest import Make
    from tests.agent.datasets.conftest import Desk

HONEST = (Status.PASSED, Status.PASSED, Status.WRONG_VALUES, Status.COMPILE_ERROR)
CHEATS = (Status.TAMPERED, Status.REJECTED, Status.IMPLAUSIBLE, Status.INPUT_MUTATED)

ATTEMPTS = st.lists(
    st.fixed_dictionaries(
        {
            "problem": st.integers(1, 4).map(lambda number: f"level1/{number:02}_p"),
            "status": st.none() | st.sampled_from(HONEST + CHEATS),
            "low": st.floats(0.5, 3),
            "width": st.floats(0, 1),
            "device": st.sampled_from(["A", "B"]),
            "sanitized": st.booleans(),
            "mark": st.integers(0, 5),
            "backend": st.sampled_from(["cpp", "cuda"]),
        }
    ),
    max_size=12,
)


def fill(desk: Desk, attempts: list[dict[str, Any]]) -> None:
    with desk.log(*(f"level1/{number:02}_p" for number in range(1, 5))) as log:
        for number, attempt in enumerate(attempts):
            verdict: dict[str, Any] = {"device": attempt["device"]}
            if attempt["status"] is Status.PASSED:
                verdict["sanitization"] = Sanitization(ran=attempt["sanitized"])
            if attempt["status"] is Status.REJECTED:
                verdict["findings"] = (Finding(rule="patching", message="m", fatal=True),)
            desk.attempt(
                log,
                attempt["status"],
                problem=attempt["problem"],
                sample=number,
                code=f"class ModelNew:\n    a = torch.op{attempt['mark']}(1)\n    b = {attempt['mark']}\n",
                speed=(attempt["low"], attempt["low"] + attempt["width"]),
                verdict=verdict,
                backend=attempt["backend"],
            )


def tables(folder: Path) -> dict[tuple[str, str], list[Any]]:
    return {
        (file.parent.name, file.stem): [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for file in folder.glob("*/*.jsonl")
    }


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ATTEMPTS, st.sampled_from(DATASET_FORMATS), st.floats(0, 1), st.sampled_from(["prompt", "problem"]))
def test_whatever_the_archive(
    make: Make, desk: Desk, attempts: list[dict[str, Any]], format: str, share: float, pairing: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = type(desk)(Path(folder), make)
        fill(own, attempts)
        exported = own.export(format, test=share, pairing=pairing)
        found, said = tables(exported.folder), own.manifest()
    check_counts(found, said, len(attempts))
    sides = {side: {row["problem"] for row in rows} for (_, side), rows in found.items()}
    assert not sides.get("train", set()) & sides.get("test", set())
    tools = {one["device"] for one in attempts if one["status"] is Status.PASSED and one["sanitized"]}
    for rows in found.values():
        for row in rows:
            check_examples(row, format, tools)


def check_counts(found: dict[tuple[str, str], list[Any]], said: Any, seen: int) -> None:
    rows = {key: len(value) for key, value in found.items()}
    assert rows == {(table, side): n for table, splits in said["rows"].items() for side, n in splits.items()}
    counts = said["attempts"]
    assert counts["seen"] == seen == counts["used"] + sum(counts["left_out"].values())


def check_examples(row: dict[str, Any], format: str, tools: set[str]) -> None:
    examples: list[dict[str, Any]] = []
    match format:
        case "sft":
            examples = [row["source"]]
        case "unpaired":
            examples = [row["source"]] if row["label"] else []
        case "preference":
            chosen, rejected = row["chosen_source"], row["rejected_source"]
            examples = [chosen]
            if rejected["status"] == "PASSED":
                assert row["reason"] == "faster"
                assert chosen["hardware"] == rejected["hardware"]
                assert chosen["speedup_low"] > rejected["speedup_high"]
        case _:
            pass
    for example in examples:
        assert example["status"] == "PASSED"
        assert example["sanitized"] or example["hardware"] not in tools


def test_splits_are_the_same_every_time_and_differ_by_seed(desk: Desk) -> None:
    names = [f"level1/{number:02}_p" for number in range(1, 30)]
    with desk.log(*names) as log:
        for name in names:
            desk.attempt(log, problem=name)

    def sides(name: str, seed: int) -> dict[str, str]:
        rows = desk.rows("attempts", name, test=0.3, seed=seed)
        return {row["problem"]: row["split"] for row in rows}

    first = sides("a", 0)
    assert first == sides("b", 0)
    assert first != sides("c", 1)
    assert Counter(first.values())["test"] in range(2, 18)


def test_near_repeats_of_a_problem_fall_on_one_side_whatever_they_are_called(desk: Desk) -> None:
    body = "\n".join(f"        x = torch.op{line}(x, {line})" for line in range(60))
    text = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    inputs = "\n\n\ndef get_inputs(): return []\n"
    family = [
        problem_from_source(
            f"{text}{body}\n        x = torch.last{number}(x){inputs}", f"level{number}/{number:02}_p"
        )
        for number in range(1, 16)
    ]
    strangers = [desk.reference(f"level9/{number:02}_q") for number in range(1, 16)]
    with desk.log(*family, *strangers) as log:
        for problem in (*family, *strangers):
            desk.attempt(log, problem=problem)
    for seed in range(4):
        rows = desk.rows("attempts", f"data{seed}", test=0.5, seed=seed)
        sides = {kind: {row["split"] for row in rows if row["problem"].endswith(kind)} for kind in ("p", "q")}
        assert len(sides["p"]) == 1 and sides["q"] == {"train", "test"}
