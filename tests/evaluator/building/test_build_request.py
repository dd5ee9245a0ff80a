"""What a contestant sends as a build request, before anything takes it in as a whole."""

from __future__ import annotations

import pytest

from kernelwright.evaluator.building.build_request import InvalidRequest, parse_request

HONEST = {"name": "ext", "cpp_sources": ["int f();"], "functions": {"f": "f"}, "files": {"a/b.h": "1\n2"}}


def _deep(levels: int) -> list[object]:
    asked: list[object] = []
    for _ in range(levels):
        asked = [asked]
    return asked


def test_an_honest_request_is_taken_as_it_is() -> None:
    request = parse_request(HONEST | {"cuda_sources": ["x" * (8 << 20)], "sources": ["a/b.cpp"] * 500})
    assert request.name == "ext"
    assert request.functions == {"f": "f"}
    assert len(request.cuda_sources[0]) == 8 << 20


@pytest.mark.parametrize(
    "asked",
    [
        None,
        3,
        "name",
        _deep(10),
        _deep(950),
        _deep(100_000),
        HONEST | {"cpp_sources": [1] * 400_000},
        HONEST | {"cpp_sources": [1] * 4_000},
        HONEST | {"cpp_sources": _deep(950)},
        HONEST | {"cpp_sources": ["x" * (25 << 20)]},
        HONEST | {"cpp_sources": ["\x01" * (5 << 20)]},
        HONEST | {"\x1b[2J\n" * 1000: 1},
        HONEST | {"n" * 1_000_000: 1},
        HONEST | {"files": {f"{number}": 1 for number in range(1000)}},
        HONEST | {"name": "n" * 201},
        HONEST | {"name": "a\nb"},
        HONEST | {"name": "a\x1b[2J"},
        HONEST | {"name": "\ud800"},
        HONEST | {"sources": ["x" * 500]},
        HONEST | {"files": {"x" * 500: ""}},
        HONEST | {"include_paths": ["x"] * 2000},
    ],
    ids=lambda asked: type(asked).__name__,
)
def test_what_is_no_request_is_refused_in_one_short_line(asked: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_request(asked)
    told = str(refused.value)
    assert told.isprintable()
    assert 0 < len(told) < 800


def test_the_first_errors_are_told_and_the_others_counted() -> None:
    with pytest.raises(InvalidRequest, match=r"cpp_sources\.0: Input should be a valid string.*and 7 more"):
        parse_request(HONEST | {"cpp_sources": [1] * 10})
