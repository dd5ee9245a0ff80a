"""What the driver records of one evaluation."""

from __future__ import annotations

from kernelwright.evaluator.driver.referee_client import _record
from kernelwright.evaluator.schema.evaluation import Build


def _build(*, ok: bool) -> Build:
    return Build(name="ext", key="", tier="full", cached=False, seconds=0.0, ok=ok)


def test_all_builds_are_recorded_but_only_the_first_of_those_that_failed() -> None:
    builds: list[Build] = []
    for _ in range(100):
        _record(builds, _build(ok=False))
        _record(builds, _build(ok=True))
    assert (len(builds), sum(build.ok for build in builds)) == (164, 100)
