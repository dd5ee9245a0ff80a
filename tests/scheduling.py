"""Which tests run in one process one after another, and which of them begin first.

Says so itself, by test ids: pytest-xdist 3.8 ignores its own groups, without a word, from pytest 9.2 on.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Final

from xdist.scheduler import LoadScopeScheduling

from tests.specimens import specimens

NEIGHBOURS: Final = 22
"""Candidates of a problem that share a warm referee; the next may run elsewhere."""
_JUDGED: Final = "test_candidate_earns_its_status["
LONG: Final = (
    "evaluator/test_corpus.py",
    "evaluator/test_pipeline.py",
    "evaluator/referee/test_sanitizing.py",
    "leaderboard/page/test_browser.py",
    "cli/test_run.py",
    "cli/test_conversation.py",
    "evaluator/building/test_lean.py",
    "evaluator/test_vetting.py",
    "cli/test_live.py",
    "cli/test_evaluate.py",
    "exchange/test_round_trip.py",
    "evaluator/test_backward.py",
    "cli/test_sanitizing.py",
    "providers/test_openai_chat.py",
    "cli/test_resume.py",
    "cli/test_generate.py",
)
"""Files that take long, the longest first: begun last, they would leave other processes idle."""


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


def order_of(nodeid: str) -> tuple[int, int]:
    """Sorts tests: long files first, within the corpus the largest groups."""
    path = nodeid.partition("::")[0]
    rank = next((rank for rank, name in enumerate(LONG) if path.endswith(name)), len(LONG))
    return rank, -_sizes().get(group_of(nodeid), 0)


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


@cache
def _sizes() -> Counter[str]:
    return Counter(_groups().values())
