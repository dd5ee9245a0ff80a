"""Hardware counters as a model is told of them."""

from __future__ import annotations

from kernelwright.evaluator import Counters, Evaluation, KernelCounters
from tests.agent.prompting.test_prompts import EVALUATIONS, prompts

SLOW = KernelCounters(
    kernel="void tiled_product<float, 64>(const float *, float *, int)",
    launches=1,
    milliseconds=0.41,
    compute_percent=34.4,
    dram_percent=81.0,
    tensor_percent=0.0,
    active_warps_percent=24.7,
    sectors_per_load=17.2,
    sectors_per_store=4.0,
    conflict_share=0.31,
    stalls={"global or local memory": 12.34, "a barrier": 3.1},
)


def counted(*kernels: KernelCounters) -> Evaluation:
    return EVALUATIONS["passed_memory"].model_copy(update={"counters": Counters(ran=True, kernels=kernels)})


def test_a_slow_kernel_is_told_what_it_waits_for() -> None:
    text = prompts().feedback(counted(SLOW), None)
    assert "Counters of `tiled_product<float, 64>` (410 µs with cold caches)" in text
    assert "in percent of the peak: arithmetic and issue 34, DRAM 81." in text
    assert "25 % of the warps a multiprocessor can hold were active." in text
    assert "Cycles an instruction waited for: global or local memory 12.3, a barrier 3.1." in text
    assert "Global loads take 17 sectors of 32 bytes a warp; contiguous accesses take 4" in text
    assert "Bank conflicts are 31 % of the passes through shared memory." in text
    assert "Global stores" not in text
    assert "tensor cores" not in text


def test_only_the_kernels_that_took_longest_are_told() -> None:
    many = counted(*(SLOW.model_copy(update={"kernel": f"k{index}(int)"}) for index in range(4)))
    text = prompts().feedback(many, None)
    assert [name in text for name in ("`k0`", "`k1`", "`k2`", "`k3`")] == [True, True, False, False]


def test_without_counters_nothing_is_said_of_them() -> None:
    nothing = EVALUATIONS["passed_memory"].model_copy(
        update={"counters": Counters(ran=False, reason="no ncu")}
    )
    assert "Counters" not in prompts().feedback(nothing, None)
