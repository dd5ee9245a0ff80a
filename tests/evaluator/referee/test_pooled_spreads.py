"""The spread between processes that a GPU's earlier problems tell."""

from __future__ import annotations

from kernelwright.evaluator.referee.timing import policy
from kernelwright.evaluator.referee.timing.baseline.baseline_cache import PooledSpreads


class Driver:
    """Keeps facts as the driver does."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, object]] = {}

    def recall(self, about: str = "") -> dict[str, object]:
        return self.facts.get(about, {})

    def remember(self, facts: dict[str, object], about: str = "") -> None:
        self.facts[about] = facts


def spreads(driver: Driver, device: str = "H200:2.11") -> PooledSpreads:
    return PooledSpreads(driver, device)  # type: ignore[arg-type]  # it has what is asked of it


def filled(driver: Driver, count: int, call_ms: float = 0.3) -> PooledSpreads:
    pool = spreads(driver)
    for number in range(count):
        pool.add(True, call_ms, 0.001 * (number + 1))
    return pool


def test_few_problems_tell_nothing():
    assert filled(Driver(), policy.POOLED_SPREADS - 1).typical(True, 0.3) is None


def test_most_problems_have_no_larger_spread():
    driver = Driver()
    known = filled(driver, 20).typical(True, 0.9)
    assert known is not None
    assert sum(spread <= known for spread in driver.facts[next(iter(driver.facts))]["spreads"]) == 18


def test_calls_of_another_length_way_or_device_tell_nothing():
    driver = Driver()
    pool = filled(driver, 20)
    assert pool.typical(True, 0.03) is None
    assert pool.typical(True, 3.0) is None
    assert pool.typical(False, 0.3) is None
    assert spreads(driver, "H100:2.11").typical(True, 0.3) is None


def test_the_latest_are_kept():
    driver = Driver()
    filled(driver, policy.KEPT_SPREADS + 10)
    (stored,) = driver.facts.values()
    assert len(stored["spreads"]) == policy.KEPT_SPREADS
    assert stored["spreads"][-1] == 0.001 * (policy.KEPT_SPREADS + 10)


def test_a_broken_store_tells_nothing():
    driver = Driver()
    pool = filled(driver, 20)
    driver.facts = {about: {"spreads": "many"} for about in driver.facts}
    assert pool.typical(True, 0.3) is None
