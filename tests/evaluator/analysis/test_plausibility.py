"""The floor convicts only where the bus is certain; the roofline never does."""

from __future__ import annotations

import pytest

from kernelwright.evaluator.analysis.plausibility import contradiction, floor_ms, roofline_ms
from kernelwright.evaluator.analysis.policy import COPY_RATE_SHARE
from kernelwright.evaluator.schema.evaluation import Plausibility

MEBIBYTE = 1 << 20
CACHE = 50 * MEBIBYTE
RATE = 4e9
"""Bytes a millisecond of a large GPU."""


def test_what_fits_the_cache_has_no_floor():
    assert floor_ms(2 * CACHE, calls=1, cache_bytes=CACHE, bytes_per_ms=RATE) is None


def test_the_floor_is_below_the_time_at_measured_bandwidth():
    floor = floor_ms(1024 * MEBIBYTE, calls=1, cache_bytes=CACHE, bytes_per_ms=RATE)
    assert floor == pytest.approx(COPY_RATE_SHARE * 924 * MEBIBYTE / RATE)


def test_a_batch_of_small_calls_is_more_than_the_cache_holds():
    moved = 24 * MEBIBYTE
    assert floor_ms(moved, calls=4, cache_bytes=CACHE, bytes_per_ms=RATE) is None
    floor = floor_ms(moved, calls=100, cache_bytes=CACHE, bytes_per_ms=RATE)
    assert floor == pytest.approx(COPY_RATE_SHARE * 23 * MEBIBYTE / RATE)


def test_a_copy_at_full_bandwidth_is_believed():
    moved = 1024 * MEBIBYTE
    floor = floor_ms(moved, calls=1, cache_bytes=CACHE, bytes_per_ms=RATE)
    assert contradiction(Plausibility(bytes_moved=moved, floor_ms=floor), moved / RATE) == ""


def test_half_the_floor_is_refused_with_both_numbers():
    why = contradiction(Plausibility(bytes_moved=1, floor_ms=0.2), 0.1)
    assert "0.1 ms" in why
    assert "0.2 ms" in why


def test_without_a_floor_anything_is_believed():
    assert contradiction(Plausibility(bytes_moved=1), 1e-9) == ""


def test_the_roofline_is_the_slower_of_memory_and_arithmetic():
    assert roofline_ms(4_000, 10, bytes_per_ms=1_000, flops_per_ms=1) == 10
    assert roofline_ms(4_000, 1, bytes_per_ms=1_000, flops_per_ms=1) == 4
