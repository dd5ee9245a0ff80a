"""Makes pairs of attempts for preference learning; pure.

A chosen attempt passed without a doubt. A rejected one failed under the same terms, or is surely slower: the
intervals of the two speedups, measured on the same hardware under the same terms against the same baseline,
do not overlap. An attempt is rejected once at most for each reason, so pairs grow linearly with attempts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kernelwright.agent.datasets.select.attempt_facts import AttemptFacts


@dataclass(frozen=True, slots=True)
class Pair:
    """Two attempts, one better."""

    chosen: AttemptFacts
    rejected: AttemptFacts
    reason: str
    """`passed` or `faster`."""


def is_surely_faster(one: AttemptFacts, other: AttemptFacts) -> bool:
    """Return whether the intervals do not overlap and everything else is the same."""
    if one.low is None or other.high is None or not one.hardware:
        return False
    return _measured(one) == _measured(other) and one.low > other.high


def pairs_of(attempts: Sequence[AttemptFacts], key: Callable[[AttemptFacts], object]) -> Iterator[Pair]:
    """Pairs of one problem's attempts that share a key; every pass among them is an example.

    Both reasons alternate, so that a limit cuts both.
    """
    groups: dict[object, list[AttemptFacts]] = defaultdict(list)
    for attempt in attempts:
        groups[attempt.problem_sha, attempt.backend, attempt.terms, key(attempt)].append(attempt)
    streams = []
    for group in groups.values():
        examples = [attempt for attempt in group if attempt.passed]
        examples.sort(key=lambda attempt: (-(attempt.low or 0.0), attempt.ordinal))
        if examples:
            streams += [_correct_over_wrong(examples, group), _fast_over_slow(examples)]
    for row in zip_longest(*streams):
        yield from (pair for pair in row if pair is not None)


def _correct_over_wrong(examples: list[AttemptFacts], group: list[AttemptFacts]) -> Iterator[Pair]:
    # Running out of memory on one device says nothing about a pass on another.
    by_hardware: dict[str, list[AttemptFacts]] = {"": examples}
    for example in examples:
        by_hardware.setdefault(example.hardware or "unknown", []).append(example)
    for number, rejected in enumerate(attempt for attempt in group if attempt.failed):
        if fits := by_hardware.get(rejected.hardware):
            yield Pair(fits[number % len(fits)], rejected, "passed")


def _fast_over_slow(examples: list[AttemptFacts]) -> Iterator[Pair]:
    comparable: dict[tuple[str, ...], list[AttemptFacts]] = defaultdict(list)
    for attempt in examples:
        if attempt.low is not None and attempt.high is not None:
            comparable[_measured(attempt)].append(attempt)
    for group in comparable.values():
        for number, rejected in enumerate(group):
            # Fastest first: the surely faster ones are at the front.
            count = _count(group, rejected)
            if count:
                yield Pair(group[number % count], rejected, "faster")


def _measured(attempt: AttemptFacts) -> tuple[str, ...]:
    """The fields two comparable speedups share."""
    return attempt.problem_sha, attempt.hardware, attempt.terms, attempt.against


def _count(group: list[AttemptFacts], slower: AttemptFacts) -> int:
    """Count the surely faster ones at the front, by bisection."""
    least, most = 0, len(group)
    while least < most:
        middle = (least + most) // 2
        if is_surely_faster(group[middle], slower):
            least = middle + 1
        else:
            most = middle
    return least
