"""Makes pairs of attempts for preference learning; pure.

A chosen attempt passed without a doubt. A rejected one failed under the same terms, or is surely slower: the
intervals of the two speedups, measured under one policy, do not overlap. An attempt is rejected once at most
for each reason, so pairs grow linearly with attempts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.score_policy import ScorePolicy


@dataclass(frozen=True, slots=True)
class Pair:
    """Two attempts, one better."""

    chosen: AttemptView
    rejected: AttemptView
    reason: str
    """`passed` or `faster`."""


def is_surely_faster(one: AttemptView, other: AttemptView) -> bool:
    """Return whether the intervals do not overlap and everything else is the same."""
    if one.low is None or other.high is None or not one.policy.hardware:
        return False
    return _measured(one) == _measured(other) and one.low > other.high


def pairs_of(attempts: Sequence[AttemptView], key: Callable[[AttemptView], object]) -> Iterator[Pair]:
    """Pairs of one problem's attempts that share a key; every pass among them is an example.

    Both reasons alternate, so that a limit cuts both.
    """
    groups: dict[object, list[AttemptView]] = defaultdict(list)
    for attempt in attempts:
        # A failure that reached no device has the settings of a policy, without its machine.
        settings = attempt.policy.on(ScorePolicy())
        groups[attempt.problem_sha, attempt.backend, settings, key(attempt)].append(attempt)
    streams = []
    for group in groups.values():
        examples = [attempt for attempt in group if attempt.passed]
        examples.sort(key=lambda attempt: -(attempt.low or 0.0))
        if examples:
            streams += [_correct_over_wrong(examples, group), _fast_over_slow(examples)]
    for row in zip_longest(*streams):
        yield from (pair for pair in row if pair is not None)


def _correct_over_wrong(examples: list[AttemptView], group: list[AttemptView]) -> Iterator[Pair]:
    # A failure on one device, or under other rules, says nothing about a pass on another.
    by_policy: dict[ScorePolicy, list[AttemptView]] = defaultdict(list)
    for example in examples:
        by_policy[example.policy].append(example)
    for number, rejected in enumerate(attempt for attempt in group if attempt.failed):
        reached = rejected.policy.hardware is not None
        if fits := by_policy.get(rejected.policy, []) if reached else examples:
            yield Pair(fits[number % len(fits)], rejected, "passed")


def _fast_over_slow(examples: list[AttemptView]) -> Iterator[Pair]:
    comparable: dict[tuple[str, ScorePolicy], list[AttemptView]] = defaultdict(list)
    for attempt in examples:
        if attempt.low is not None and attempt.high is not None:
            comparable[_measured(attempt)].append(attempt)
    for group in comparable.values():
        for number, rejected in enumerate(group):
            # Fastest first: the surely faster ones are at the front.
            count = bisect_left(group, True, key=lambda other: not is_surely_faster(other, rejected))
            if count:
                yield Pair(group[number % count], rejected, "faster")


def _measured(attempt: AttemptView) -> tuple[str, ScorePolicy]:
    """The fields two comparable speedups share."""
    return attempt.problem_sha, attempt.policy
