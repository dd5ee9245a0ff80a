"""Which tests run in one process one after another, and in which order they begin.

Says so itself, by test ids: pytest-xdist 3.8 ignores its own groups, without a word, from pytest 9.2 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from types import MappingProxyType
from typing import Final

from xdist.scheduler import LoadScopeScheduling

from tests.specimens import specimens

NEIGHBOURS: Final = 46
"""Candidates of a problem that share a warm referee; the next may run elsewhere, with another one to open."""
_JUDGED: Final = "test_candidate_earns_its_status["
LONG: Final = MappingProxyType(
    {
        "tests/evaluator/test_evaluator.py": 100,
        "tests/evaluator/referee/test_sanitization.py": 80,
        "tests/agent/leaderboard/html/test_browser.py": 80,
        "tests/agent/cli/test_conversation.py": 60,
        "tests/evaluator/driver/test_problem_inspector.py": 50,
        "tests/test_docs.py": 50,
        "tests/agent/cli/test_run.py": 35,
        "tests/agent/cli/test_live_endpoint.py": 35,
        "tests/evaluator/referee/test_candidate_timer.py": 30,
        "tests/evaluator/test_backward.py": 30,
        "tests/agent/service/test_serve.py": 30,
        "tests/agent/cli/test_resume.py": 30,
        "tests/agent/cli/test_sanitize_option.py": 30,
        "tests/agent/interop/test_round_trip.py": 25,
        "tests/test_scheduling.py": 20,
        "tests/evaluator/referee/test_dynamo_stub.py": 20,
        "tests/evaluator/building/test_lean_headers.py": 20,
        "tests/agent/runner/test_runner_resume.py": 20,
        "tests/evaluator/driver/test_cancellation.py": 15,
        "tests/agent/providers/test_openai_chat.py": 15,
        "tests/agent/cli/test_evaluate.py": 15,
        "tests/agent/cli/test_few_shot_command.py": 15,
        "tests/reference_problems/test_reference_problems.py": 15,
        "tests/agent/cli/test_generate.py": 15,
        "tests/agent/cli/test_bad_input.py": 10,
        "tests/agent/cli/test_check.py": 10,
        "tests/agent/extraction/test_extraction_properties.py": 10,
    }
)
"""Seconds that files take, about, where it is more than a few: what is begun last keeps others waiting."""


class Neighbours(LoadScopeScheduling):
    """Hands out whole files, and the corpus in groups of candidates of the same problem."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """What a test has in common with those that run in the same process."""
    path, _, test = nodeid.partition("::")
    if test.startswith(_JUDGED):
        return _groups()[test.removeprefix(_JUDGED).removesuffix("]")]
    return path


def ranks(nodeids: Iterable[str]) -> dict[str, int]:
    """By group, which begins when: the corpus beside everything else, of both what takes longest first.

    Whoever times a candidate has the CPU alone: processes that all judge the corpus wait for each other.
    """
    sizes = Counter(map(group_of, nodeids))
    judged = set(_groups().values())
    streams = [
        {group: size for group, size in sizes.items() if group in judged},
        {group: LONG.get(group, 1) for group in sizes if group not in judged},
    ]
    begun: dict[str, float] = {}
    for stream in streams:
        before, total = 0, sum(stream.values())
        for group, cost in sorted(stream.items(), key=lambda item: -item[1]):
            begun[group] = before / total
            before += cost
    return {group: rank for rank, group in enumerate(sorted(begun, key=begun.__getitem__))}


@cache
def _groups() -> dict[str, str]:
    """The group of each specimen by its name."""
    before: Counter[str] = Counter()
    groups = {}
    for specimen in specimens():
        kind = f"{specimen.device} {specimen.header['problem']} {specimen.header['shapes']}"
        groups[specimen.name] = f"{kind} {before[kind] // NEIGHBOURS}"
        before[kind] += 1
    return groups
