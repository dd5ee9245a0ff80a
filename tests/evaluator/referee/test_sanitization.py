"""The sanitize stage on a CPU: real builds, real processes, real faults."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator import (
    Candidate,
    EvaluationConfig,
    Evaluator,
    Limits,
    Sanitization,
    Sanitize,
    Stage,
    Status,
    problem_from_source,
)
from kernelwright.evaluator.analysis.sanitizers import find_sanitizers
from kernelwright.evaluator.building.toolchain import find_toolchain

PROBLEM = problem_from_source(
    textwrap.dedent(
        """
        import torch
        from torch import nn

        N = 4001

        class Model(nn.Module):
            def forward(self, x):
                return x * 2 + 1

        def get_inputs():
            return [torch.randn(N)]

        def get_init_inputs():
            return []
        """
    ),
    "double_and_add",
)
CONFIG = EvaluationConfig(
    measure=False, threads=1, trials=2, limits=Limits(memory_gib=4, sanitize_s=240, call_s=20)
)
pytestmark = pytest.mark.skipif(
    bool(find_sanitizers(find_toolchain().cxx.path).missing("cpu")), reason="no AddressSanitizer here"
)


def extension(body: str, *flags: str, forward: str = "") -> Candidate:
    """A candidate around `extern "C" void run(const float* x, float* y, long n)`, built without headers."""
    source = f'''
import ctypes, os, torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""{textwrap.dedent(body)}"""
path = load_inline(
    name="ext", cpp_sources=SOURCE, functions=None, no_implicit_headers=True, is_python_module=False,
    extra_cflags={list(flags)!r},
)
run = ctypes.CDLL(path).run

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        {forward or "pass"}
        run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
        return y
'''
    return Candidate(source=source, backend="cpp")


READS_PAST_THE_END = extension(
    """
    extern "C" void run(const float* x, float* y, long n) {
        volatile float dropped = 0;
        for (long i = 0; i < n; ++i) y[i] = x[i] * 2 + 1;
        dropped = x[n];
    }
    """,
    "-O3",
)
READS_PAST_ITS_SCRATCH = extension(
    """
    #include <cstdlib>
    extern "C" void run(const float* x, float* y, long n) {
        float* copy = (float*)malloc(n * sizeof(float));
        volatile float dropped = 0;
        for (long i = 0; i < n; ++i) copy[i] = x[i] * 2;
        for (long i = 0; i < n; ++i) y[i] = copy[i] + 1;
        dropped = copy[n];
        free(copy);
    }
    """,
    "-O1",
)
"""No guard page lies behind memory that a candidate takes from malloc."""
WATCHED = '"libasan" in open("/proc/self/maps").read()'


@pytest.fixture(scope="module")
def evaluator(shared_cache: Path) -> Iterator[Evaluator]:
    with Evaluator(cache=shared_cache) as opened:
        yield opened


def sanitize(evaluator: Evaluator, candidate: Candidate) -> Sanitization:
    return evaluator.sanitize(PROBLEM, candidate, CONFIG)


def test_a_read_one_past_the_end_is_a_memory_error_with_its_line(evaluator: Evaluator) -> None:
    found = sanitize(evaluator, READS_PAST_THE_END)
    assert found.ran
    assert found.convicts is Status.MEMORY_ERROR
    assert found.tools == ("address (full size)",)
    assert "heap-buffer-overflow: READ of size 4" in found.reason
    assert "`dropped = x[n];`" in found.reason


@pytest.mark.slow
def test_a_write_before_the_start_is_a_memory_error(evaluator: Evaluator) -> None:
    found = sanitize(
        evaluator,
        extension(
            """
            extern "C" void run(const float* x, float* y, long n) {
                for (long i = n - 1; i >= -1; --i) y[i] = x[i < 0 ? 0 : i] * 2 + 1;
            }
            """
        ),
    )
    assert found.convicts is Status.MEMORY_ERROR
    assert "WRITE of size 4" in found.reason


@pytest.mark.slow
def test_memory_used_after_it_was_freed_is_a_memory_error(evaluator: Evaluator) -> None:
    found = sanitize(
        evaluator,
        extension(
            """
            #include <cstdlib>
            extern "C" void run(const float* x, float* y, long n) {
                float* copy = (float*)malloc(n * sizeof(float));
                for (long i = 0; i < n; ++i) copy[i] = x[i] * 2 + 1;
                free(copy);
                for (long i = 0; i < n; ++i) y[i] = i ? x[i] * 2 + 1 : copy[0];
            }
            """
        ),
    )
    assert found.convicts is Status.MEMORY_ERROR
    assert "heap-use-after-free" in found.reason


def test_unlocked_additions_are_a_race_though_one_thread_gets_them_right(evaluator: Evaluator) -> None:
    found = sanitize(
        evaluator,
        extension(
            """
            extern "C" void run(const float* x, float* y, long n) {
                static volatile long counter;
                counter = 0;
                #pragma omp parallel for schedule(static, 1)
                for (long i = 0; i < 30000000; ++i) counter = counter + 1;
                for (long i = 0; i < n; ++i) y[i] = x[i] * 2 + counter / 3e7f;
            }
            """,
            "-O1",
            "-fopenmp",
        ),
    )
    assert found.convicts is Status.RACE
    assert "threads were wrong" in found.reason
    assert found.tools[0] == "address (full size)"


def test_honest_threads_scratch_and_exceptions_are_clean(evaluator: Evaluator) -> None:
    found = sanitize(
        evaluator,
        extension(
            """
            #include <omp.h>
            #include <stdexcept>
            #include <vector>
            extern "C" void run(const float* x, float* y, long n) {
                static std::vector<float> scratch(omp_get_max_threads() * 16);
                try { throw std::runtime_error("caught"); } catch (const std::exception&) {}
                #pragma omp parallel for
                for (long i = 0; i < n; ++i) {
                    float& mine = scratch[omp_get_thread_num() * 16];
                    mine = x[i] * 2;
                    y[i] = mine + 1;
                }
            }
            """,
            "-O3",
            "-fopenmp",
            "-march=native",
        ),
    )
    assert (found.ran, found.findings, found.tools) == (True, (), ("address (full size)",)), found
    assert found.settled


@pytest.mark.slow
def test_work_divided_for_a_fixed_number_of_threads_is_only_remarked(evaluator: Evaluator) -> None:
    found = sanitize(
        evaluator,
        extension(
            """
            #include <omp.h>
            extern "C" void run(const float* x, float* y, long n) {
                for (long i = 0; i < n; ++i) y[i] = omp_get_max_threads() == 1 ? x[i] * 2 + 1 : 0;
            }
            """,
            "-fopenmp",
        ),
    )
    assert found.ran
    assert found.convicts is None
    assert any("always wrong alike" in text for text in found.findings)


def test_a_signed_overflow_is_a_remark_and_a_bad_index_convicts(evaluator: Evaluator) -> None:
    body = """
        extern "C" void run(const float* x, float* y, long n) {
            int table[4] = {1, 2, 3, 4}, large = 2147483647;
            volatile int step = 1, at = 4;
            large += step;
            for (long i = 0; i < n; ++i) y[i] = x[i] * 2 + 1;
            volatile int dropped = large + table[at];
        }
    """
    found = sanitize(evaluator, extension(body))
    assert found.convicts is Status.MEMORY_ERROR
    assert any("index 4 out of bounds" in text for text in found.findings)
    assert "signed integer overflow" in found.findings[-1]


def test_a_candidate_that_builds_nothing_needs_no_tool(evaluator: Evaluator) -> None:
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x * 2 + 1\n"
    found = sanitize(evaluator, Candidate(source=source, backend="cpp"))
    assert not found.ran
    assert not found.needed
    assert found.settled


@pytest.mark.slow
def test_a_candidate_that_dies_without_a_report_is_not_convicted(evaluator: Evaluator) -> None:
    body = (
        'extern "C" void run(const float* x, float* y, long n) { for (long i = 0; i < n; ++i) y[i] = x[i]; }'
    )
    found = sanitize(evaluator, extension(body, forward=f"{WATCHED} and os._exit(0)"))
    assert not found.ran
    assert found.convicts is None
    assert "failed under it" in found.reason
    assert not found.settled


def test_a_silenced_tool_is_no_report(evaluator: Evaluator) -> None:
    candidate = extension(
        'extern "C" void run(const float* x, float* y, long n) { for (long i = 0; i <= n; ++i) y[i] = 1; }',
        forward="os.close(2), os.close(1)",
    )
    found = sanitize(evaluator, candidate)
    assert not found.ran
    assert found.convicts is None


@pytest.mark.slow
def test_time_that_runs_out_is_said(evaluator: Evaluator) -> None:
    body = 'extern "C" void run(const float* x, float* y, long n) { for (;;) y[0] = 1; }'
    limits = Limits(sanitize_s=5, memory_gib=4)
    found = evaluator.sanitize(PROBLEM, extension(body), CONFIG.model_copy(update={"limits": limits}))
    assert not found.ran
    assert "TIMED_OUT" in found.reason


def test_an_evaluation_ends_with_what_the_tools_found_when_asked_to(evaluator: Evaluator) -> None:
    config = CONFIG.model_copy(update={"sanitize": Sanitize.ON})
    evaluation = evaluator.evaluate(PROBLEM, READS_PAST_ITS_SCRATCH, config)
    assert (evaluation.status, evaluation.stage) == (Status.MEMORY_ERROR, Stage.SANITIZE)
    assert evaluation.sanitization is not None
    assert evaluation.sanitization.convicts is Status.MEMORY_ERROR
    assert evaluation.detail == evaluation.sanitization.reason
    assert len(evaluation.builds) == 1


def test_a_clean_report_is_remembered(evaluator: Evaluator) -> None:
    timed = {"measure": True, "baselines": ("eager",), "target_ms": 5.0, "max_turns": 4}
    config = CONFIG.model_copy(update={"sanitize": Sanitize.ON, **timed})
    source = READS_PAST_THE_END.source.replace("dropped = x[n]", "dropped = x[n - 1]")
    candidate = Candidate(source=source, backend="cpp")
    first, again = (evaluator.evaluate(PROBLEM, candidate, config).sanitization for _ in range(2))
    assert first is not None and first.ran and not first.remembered and first.convicts is None
    assert again == first.model_copy(update={"remembered": True, "seconds": 0.0})


def test_an_overrun_of_an_input_is_found_without_a_tool(evaluator: Evaluator) -> None:
    evaluation = evaluator.evaluate(PROBLEM, READS_PAST_THE_END, CONFIG)
    assert (evaluation.status, evaluation.stage) == (Status.MEMORY_ERROR, Stage.VERIFY)
    assert "beyond the end of its input 0" in evaluation.detail


def test_code_cannot_ask_whether_it_is_instrumented_nor_not_to_be(evaluator: Evaluator) -> None:
    body = """
        #define JOINED(a, b) a##b
        __attribute__((JOINED(no_, sanitize)("address"), noinline)) static float read(const float* x, long n)
        {
            return x[n];
        }
        extern "C" void run(const float* x, float* y, long n) {
            for (long i = 0; i < n; ++i) y[i] = x[i] * 2 + 1;
        #if !JOINED(__SANITIZE_, ADDRESS__)
            volatile float dropped = read(x, n);
        #endif
        }
    """
    found = sanitize(evaluator, extension(body, "-O1"))
    assert found.convicts is Status.MEMORY_ERROR
    assert "heap-buffer-overflow" in found.reason


def test_a_clean_report_on_what_looks_for_the_tool_does_not_count(evaluator: Evaluator) -> None:
    source = READS_PAST_THE_END.source.replace("dropped = x[n]", "dropped = x[n - 1]")
    looking = Candidate(source=f"WATCHED = {WATCHED}\n{source}", backend="cpp")
    found = sanitize(evaluator, looking)
    assert (found.ran, found.convicts, found.tools) == (False, None, ("address (full size)",))
    assert "it names /proc/self/maps, libasan" in found.reason


def test_an_evaluation_on_a_cpu_leaves_the_tools_for_later(evaluator: Evaluator) -> None:
    evaluation = evaluator.evaluate(PROBLEM, READS_PAST_ITS_SCRATCH, CONFIG)
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.sanitization is not None
    assert not evaluation.sanitization.settled
    assert "to be kept" in evaluation.sanitization.reason


LARGE = problem_from_source(
    PROBLEM.source.replace("N = 4001", 'N = 3000000\nSHAPES = {"small": {"N": 1000}}'), "double_and_add_large"
)


@pytest.mark.slow
def test_an_overrun_at_smaller_sizes_must_show_at_the_judged_ones_too(evaluator: Evaluator) -> None:
    """A candidate may be made for its sizes: what it does at others is remarked and held against nobody."""
    body = """
        extern "C" void run(const float* x, float* y, long n) {{
            for (long i = 0; i < {count}; ++i) y[i] = x[i] * 2 + 1;
        }}
    """
    found = evaluator.sanitize(LARGE, extension(body.format(count=3000000), "-O2"), CONFIG)
    assert (found.ran, found.convicts) == (True, None)
    assert found.tools == ("address (small)", "address (full size)")
    assert "at small sizes only" in found.findings[0]
    found = evaluator.sanitize(LARGE, extension(body.format(count=3000001), "-O2"), CONFIG)
    assert found.convicts is Status.MEMORY_ERROR


def test_an_evaluation_of_library_calls_leaves_nothing_to_sanitize(evaluator: Evaluator) -> None:
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x * 2 + 1\n"
    evaluation = evaluator.evaluate(PROBLEM, Candidate(source=source, backend="cpp"), CONFIG)
    assert evaluation.sanitization is not None
    assert evaluation.sanitization.settled


def test_a_candidate_that_behaves_only_in_sight_of_a_tool_stays_unsanitized(evaluator: Evaluator) -> None:
    built = READS_PAST_THE_END.source.replace("path = load_inline", "path = WATCHED or load_inline")
    source = built.replace("run = ctypes.CDLL(path).run", "run = WATCHED or ctypes.CDLL(path).run").replace(
        "        y = torch.empty_like(x)",
        "        if WATCHED: return x * 2 + 1\n        y = torch.empty_like(x)",
    )
    hiding = f"WATCHED = {WATCHED}\n{source}"
    found = sanitize(evaluator, Candidate(source=hiding, backend="cpp"))
    assert not found.settled
    assert found.convicts is None
    assert "while a tool watched" in found.reason
