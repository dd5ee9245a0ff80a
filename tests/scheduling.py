"""Which tests run in one process one after another, and in which order they begin.

Says so itself, by test ids: pytest-xdist 3.8 ignores its own groups, without a word, from pytest 9.2 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

from tests.specimens import specimens

NEIGHBOURS: Final = 46
"""Candidates of a problem that share a warm referee; the next may run elsewhere, with another one to open."""
_JUDGED: Final = "test_candidate_earns_its_status["
LONG: Final = MappingProxyType(
    {
        "tests/evaluator/referee/test_sanitization.py": 120,
        "tests/evaluator/test_evaluator.py": 90,
        "tests/agent/leaderboard/html/test_browser.py": 80,
        "tests/evaluator/driver/test_problem_inspector.py": 65,
        "tests/agent/cli/test_conversation.py": 55,
        "tests/agent/cli/test_run.py": 45,
        "tests/evaluator/referee/test_evaluate_candidate.py": 45,
        "tests/agent/cli/test_judges.py": 35,
        "tests/evaluator/building/test_lean_headers.py": 35,
        "tests/agent/cli/test_live_endpoint.py": 30,
        "tests/agent/cli/test_resume.py": 30,
        "tests/evaluator/referee/test_candidate_timer.py": 30,
        "tests/reference_problems/test_reference_problems.py": 30,
        "tests/agent/cli/test_generate.py": 25,
        "tests/agent/test_plugin_package.py": 25,
        "tests/evaluator/test_backward.py": 25,
        "tests/agent/cli/test_evaluate.py": 20,
        "tests/agent/cli/test_headroom.py": 20,
        "tests/evaluator/daemon/test_daemon.py": 20,
        "tests/agent/cli/test_kernels.py": 15,
        "tests/agent/cli/test_leaderboard.py": 15,
        "tests/agent/extraction/test_extraction_properties.py": 15,
        "tests/agent/interop/test_round_trip.py": 15,
        "tests/agent/providers/test_openai_chat.py": 15,
        "tests/agent/runner/test_runner_resume.py": 15,
        "tests/agent/service/test_serve.py": 15,
        "tests/evaluator/referee/test_baseline_recheck.py": 15,
        "tests/evaluator/referee/test_device_turns.py": 15,
        "tests/evaluator/referee/test_effects.py": 15,
        "tests/evaluator/referee/test_timed_products.py": 15,
        "tests/test_docs.py": 15,
        "tests/agent/cli/test_bad_input.py": 10,
        "tests/agent/cli/test_few_shot_command.py": 10,
        "tests/agent/cli/test_nouns.py": 10,
        "tests/agent/evaluation/test_failover.py": 10,
        "tests/agent/leaderboard/html/test_page.py": 10,
        "tests/evaluator/referee/test_compiled_reference.py": 10,
        "tests/evaluator/referee/test_device_rules.py": 10,
        "tests/evaluator/referee/test_dynamo_stub.py": 10,
        "tests/evaluator/referee/test_float64_mode.py": 10,
        "tests/evaluator/sandbox/test_isolation.py": 10,
        "tests/evaluator/sandbox/test_killed_drivers.py": 10,
        "tests/evaluator/sandbox/test_limits.py": 10,
    }
)
"""Seconds that files take, about, where it is more than a few: what is begun last keeps others waiting."""


class Neighbours(LoadScopeScheduling):
    """Hands out whole files, and the corpus in groups of candidates of the same problem.

    One process judges the corpus, the others have all else, for as long as there is both: whoever times a
    candidate has the CPU alone, so that three processes judge no more in a minute than one does.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:  # Any: xdist's own
        self.workqueue.move_to_end(chosen(self.workqueue, judges=node is self.nodes[0]), last=False)
        super()._assign_work_unit(node)


def chosen(groups: Iterable[str], *, judges: bool) -> str:
    """The group that comes next: the first of the corpus or of all else, or the first of any."""
    waiting, judged = list(groups), set(_groups().values())
    return next((group for group in waiting if (group in judged) == judges), waiting[0])


def group_of(nodeid: str) -> str:
    """What a test has in common with those that run in the same process."""
    path, _, test = nodeid.partition("::")
    if test.startswith(_JUDGED):
        return _groups()[test.removeprefix(_JUDGED).removesuffix("]")]
    return path


def ranks(nodeids: Iterable[str]) -> dict[str, int]:
    """By group, which begins when: what takes longest first."""
    sizes = Counter(map(group_of, nodeids))
    judged = set(_groups().values())
    costs = {group: size if group in judged else LONG.get(group, 1) for group, size in sizes.items()}
    return {group: rank for rank, group in enumerate(sorted(costs, key=lambda group: -costs[group]))}


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
