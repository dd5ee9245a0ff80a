"""What a process is handed of what it asks to be built."""

from pathlib import Path

import pytest

from kernelwright.evaluator.building.build_request import BuildOutcome
from kernelwright.evaluator.driver.built_libraries import BuiltLibraries
from kernelwright.evaluator.driver.policy import MOST_BUILDS, MOST_LIBRARY_BYTES
from kernelwright.evaluator.schema.evaluation import Build


@pytest.fixture
def supply(tmp_path):
    folder = tmp_path / "handed"
    folder.mkdir()
    return BuiltLibraries(folder, seen=lambda path: path)


@pytest.fixture
def outcome(tmp_path):
    library = tmp_path / "built.so"
    library.write_bytes(b"a library")
    build = Build(name="ext", key="k", tier="full", cached=True, seconds=0.0, ok=True)
    return BuildOutcome(build=build, shared_object=library)


def test_an_equal_request_is_answered_with_the_library_that_was_handed_over(supply, outcome):
    given = supply.hand_over({"name": "ext", "a": 1}, outcome)
    assert Path(given.path).read_bytes() == b"a library"
    assert supply.recall({"a": 1, "name": "ext"}) == given
    assert len(list(supply.folder.iterdir())) == 1


def test_there_are_only_so_many_different_builds(supply, outcome):
    for number in range(MOST_BUILDS):
        assert supply.recall(number) is None
        assert supply.hand_over(number, outcome).ok
    refused = supply.recall("one more")
    assert refused is not None
    assert not refused.ok
    assert refused.refused
    assert supply.recall(0).ok


def test_there_is_only_so_much_room_for_libraries(supply, outcome):
    supply.size = MOST_LIBRARY_BYTES
    refused = supply.hand_over("large", outcome)
    assert refused.refused
    assert not list(supply.folder.iterdir())
