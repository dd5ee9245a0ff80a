"""What passed is kept, unless it would not build where nobody has lean headers."""

from __future__ import annotations

import pytest

from kernelwright.agent.records.attempt_log import KernelRefused
from kernelwright.agent.runner.events import Kept, Refused
from kernelwright.agent.strategies.sample import Sample
from kernelwright.evaluator import Evaluation, FullHeaderBuild

WHY = "ext: main.cpp:3:1: error: no such thing"


class Building:
    """A builder that finds what it is told to."""

    def __init__(self, ok: bool | None, why: str = "") -> None:
        self.asked: list[Evaluation] = []
        self._found = FullHeaderBuild(ok=ok, why=why)

    def __call__(self, evaluation: Evaluation) -> FullHeaderBuild:
        self.asked.append(evaluation)
        return self._found


@pytest.mark.parametrize("ok", [True, None])
def test_a_score_log_says_whether_a_plain_build_was_seen(bench, scripted, says, ok) -> None:
    building = Building(ok)
    provider = scripted(lambda request: says("PASSED 2.0"))
    bench.run(bench.plan(1, strategy=Sample(samples=1)), provider, builds_plainly=building)
    (kernel,) = bench.workspace.kernels()
    assert kernel.record.builds_plainly is ok
    assert len(building.asked) == len(bench.of(Kept)) == 1


def test_what_does_not_build_plainly_is_refused_for_good(bench, scripted, says) -> None:
    provider = scripted(lambda request: says("PASSED 2.0"))
    plan = bench.plan(1, strategy=Sample(samples=1))
    summary = bench.run(plan, provider, builds_plainly=Building(ok=False, why=WHY))
    assert (summary.passed, summary.kept) == (1, 0)
    assert list(bench.workspace.kernels()) == []
    (said,) = bench.of(Refused)
    assert said.message == f"it does not build with torch's own headers: {WHY}"
    with bench.resume() as log:
        assert [seen.refused for seen in log.index.attempts.values()] == [True]
        lines = [line for line in log.archive.lines(log.run) if isinstance(line, KernelRefused)]
    assert [line.message for line in lines] == [said.message]


def test_plain_builds_can_be_left_out(bench, scripted, says) -> None:
    building = Building(ok=False, why=WHY)
    provider = scripted(lambda request: says("PASSED 2.0"))
    plan = bench.plan(1, strategy=Sample(samples=1), plain_build=False)
    bench.run(plan, provider, builds_plainly=building)
    (kernel,) = bench.workspace.kernels()
    assert kernel.record.builds_plainly is None
    assert building.asked == []
