"""Builds of one machine in the cache of another; two folders stand for the machines."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from kernelwright.evaluator.building.build_cache import BuildCache, CacheEntry, PackedBuild
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.builds_ahead import BuildsAhead, BuildsElsewhere, store_builds
from kernelwright.evaluator.building.predicted_builds import predicted_builds
from kernelwright.evaluator.sandbox import Launcher, strongest
from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.errors import MachineError

CANDIDATE = """
load_inline(name="one", cpp_sources={source!r}, no_implicit_headers=True)
"""
RIGHT = 'extern "C" int one() { return 1; }'
WRONG = "int one() { return undeclared; }"


def _built(folder: Path, *sources: str) -> list[PackedBuild]:
    with closing(BuildsElsewhere(folder, EvaluationConfig())) as builds:
        return builds.build("".join(CANDIDATE.format(source=source) for source in sources), None)


def test_a_build_of_another_machine_is_found_here(tmp_path: Path) -> None:
    packed = _built(tmp_path / "there", RIGHT, WRONG)
    assert [each.entry.ok for each in packed] == [True, False]
    sent = [PackedBuild.model_validate_json(each.model_dump_json()) for each in packed]
    store_builds(tmp_path / "here", sent)
    store_builds(tmp_path / "here", sent)
    with Launcher() as launcher:
        builder = Builder(cache=tmp_path / "here" / "builds", launcher=launcher, tier=strongest(None))
        found = [
            builder.build(
                predicted_builds(CANDIDATE.format(source=source))[0], architecture=None, timeout_s=60
            )
            for source in (RIGHT, WRONG)
        ]
    assert [outcome.build.cached for outcome in found] == [True, True]
    assert found[0].shared_object is not None
    assert found[0].shared_object.read_bytes() == packed[0].shared_object
    assert "undeclared" in found[1].build.log


def test_what_builds_nothing_sends_nothing(tmp_path: Path) -> None:
    assert _built(tmp_path) == []


def test_a_damaged_library_is_refused(tmp_path: Path) -> None:
    entry = CacheEntry(ok=True, sha256="0" * 64, size=1)
    packed = PackedBuild(key="a" * 64, entry=entry, shared_object=b"eA==")
    with pytest.raises(MachineError, match="came damaged"):
        store_builds(tmp_path, [packed])
    assert not BuildCache(tmp_path / "builds").has("a" * 64)


def test_a_key_that_is_no_hash_is_refused() -> None:
    with pytest.raises(ValidationError, match="key"):
        PackedBuild(key="../../" + "a" * 58, entry=CacheEntry(ok=False))


def test_a_large_library_stays_where_it_is(tmp_path: Path) -> None:
    (packed,) = _built(tmp_path, RIGHT)
    store = BuildCache(tmp_path / "builds")
    assert store.pack(packed.key, most_bytes=packed.entry.size) is not None
    assert store.pack(packed.key, most_bytes=packed.entry.size - 1) is None


IMPORT = "from torch.utils.cpp_extension import load_inline\n"
AVOIDABLE = "try:\n    one = 1\nfinally:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "is_fatal"),
    [
        pytest.param(IMPORT + CANDIDATE.format(source=WRONG), True, id="wrong"),
        pytest.param(IMPORT + CANDIDATE.format(source=RIGHT), False, id="right"),
        pytest.param(IMPORT + AVOIDABLE + CANDIDATE.format(source=WRONG), False, id="avoidable"),
    ],
)
def test_only_a_failed_build_that_is_surely_asked_for_is_fatal(
    tmp_path: Path, text: str, *, is_fatal: bool
) -> None:
    with Launcher() as launcher:
        builder = Builder(cache=tmp_path, launcher=launcher, tier=strongest(None))
        ahead = BuildsAhead(builder, predicted_builds(text), architecture=None, timeout_s=60)
        ahead.wait(lambda: False, 0.1)
        failed = ahead.fatal(text)
    assert (failed is not None) is is_fatal
    if failed is not None:
        assert not failed.cached
        assert "undeclared" in failed.log
