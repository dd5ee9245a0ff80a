"""Recorded conversations of our own, judged for real: repaired, made faster, rolled back, out of budget.

They want quiet cores, which other tests beside them do not leave.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelwright.agent.workspace import Workspace
from tests.agent.cli.conftest import Command

if TYPE_CHECKING:
    from kernelwright.agent.archive import Archive
    from kernelwright.agent.records.attempt_log import Attempt

RECORDINGS = Path(__file__).parent / "recordings"
SETTINGS = """
keep_slower = true
problems = ["level1/05_odd_size_matmul"]
backends = ["cpp"]
provider = "replay"
recordings = "{recordings}"
strategy = "{strategy}"
plain_build = false
[options]
{options}
[budget]
attempts = {attempts}
[evaluation]
shapes = "odd"
baselines = ["eager"]
sanitize = "off"
trials = 2
target_ms = 40
max_turns = 6
"""


def held(
    kernelwright: Command, folder: Path, cache: Path, *, strategy: str, options: str, attempts: int
) -> tuple[Archive, dict[tuple[int, int], Attempt]]:
    """Hold a recorded conversation to the end of its budget: the archive, and attempts by sample and turn."""
    settings = folder / "run.toml"
    recordings = RECORDINGS / strategy
    settings.write_text(
        SETTINGS.format(strategy=strategy, options=options, attempts=attempts, recordings=recordings)
    )
    result = kernelwright("run", "--config", str(settings), "--cache", str(cache), "--quiet")
    assert result.exit_code == 0, result.output
    assert f"budget of {attempts} attempts reached" in result.stdout, result.output
    archive = Workspace(folder).archive()
    found = {(attempt.key.sample, attempt.key.turn): attempt for attempt in archive.attempts()}
    assert len(found) == attempts
    if any(
        attempt.evaluation is not None and attempt.evaluation.score.contended for attempt in found.values()
    ):
        pytest.skip("other programs wanted the cores, so speedups decide nothing")
    assert {attempt.completion.answered_by for attempt in found.values()} == {"replay-handwritten"}
    return archive, found


def statuses(found: dict[tuple[int, int], Attempt], sample: int) -> list[str]:
    return [str(found[place].status) for place in sorted(found) if place[0] == sample]


def speed(attempt: Attempt) -> float:
    assert attempt.speedup is not None
    return attempt.speedup


@pytest.mark.slow
def test_a_conversation_is_repaired_made_faster_rolled_back_and_bounded(
    kernelwright: Command, tmp_path: Path, shared_cache: Path
) -> None:
    archive, found = held(
        kernelwright, tmp_path, shared_cache, strategy="refine", options="turns = 8", attempts=6
    )
    assert statuses(found, 0) == [
        "COMPILE_ERROR",
        "WRONG_VALUES",
        "PASSED",
        "PASSED",
        "WRONG_VALUES",
        "PASSED",
    ]
    asked = [archive.messages(found[0, turn].completion) for turn in range(6)]
    assert "does not compile" in asked[1][-1].content and "expected" in asked[1][-1].content
    assert "Only some elements are wrong: check edges" in asked[2][-1].content
    assert "Your module is correct, and runs at" in asked[3][-1].content
    # The naive loops take about ten times as long as those that replace them.
    assert speed(found[0, 3]) > speed(found[0, 2])
    # What made it worse is not shown; the last question goes on from the best, and says what was tried.
    assert asked[5][:-1] == asked[4][:-1]
    assert "was given up for this one: it ended as WRONG_VALUES" in asked[5][-1].content
    assert len(list(Workspace(tmp_path).kernels())) == 3


@pytest.mark.slow
def test_a_population_is_repaired_bred_rid_of_regressions_and_bounded(
    kernelwright: Command, tmp_path: Path, shared_cache: Path
) -> None:
    options = "population = 2\ngenerations = 4"
    archive, found = held(
        kernelwright, tmp_path, shared_cache, strategy="evolve", options=options, attempts=7
    )
    assert statuses(found, 0) == ["COMPILE_ERROR", "PASSED", "PASSED", "PASSED"]
    assert statuses(found, 1) == ["WRONG_VALUES", "PASSED", "WRONG_VALUES"]
    names = {attempt.id: place for place, attempt in found.items()}
    parents = {
        place: [names[parent] for parent in attempt.completion.parents] for place, attempt in found.items()
    }
    said = {place: archive.messages(attempt.completion)[-1].content for place, attempt in found.items()}
    # Nothing is right yet: the failure that came furthest is repaired first, then the other.
    assert [parents[slot, 1] for slot in range(2)] == [[(1, 0)], [(0, 0)]]
    assert "Only some elements are wrong: check edges" in said[0, 1]
    assert "does not compile" in said[1, 1]
    # Later ones are bred from what is right; the naive loops take about ten times as long as the others.
    assert [parents[slot, 2] for slot in range(2)] == [[(0, 1), (1, 1)]] * 2
    assert all((archive.code(found[place]) or "-") in said[0, 2] for place in parents[0, 2])
    assert min(speed(found[0, 1]), speed(found[0, 2])) > speed(found[1, 1])
    # The regression has no offspring; what differs only in comments is not judged again.
    assert (1, 2) not in parents[0, 3] and len(parents[0, 3]) == 2
    again = found[0, 3].evaluation
    assert again is not None and again.reused_from == found[0, 2].id
    assert len(list(Workspace(tmp_path).kernels())) == 3
