"""Tracks from traces, symbols and sources: own only with evidence."""

from __future__ import annotations

import time

import pytest

from kernelwright.evaluator.analysis.attribution import TraceEvent, attribute, base_name, kernel_names
from kernelwright.evaluator.analysis.elf_symbols import Symbols

BUILT = Symbols(libraries=1, defines=("_ZN2my11gelu_kernelIfEEvPKT_PS1_i", "plain", "_Z16kernelwithprefixv"))
NOTHING = Symbols()


def kernels(**spent: float) -> list[TraceEvent]:
    return [TraceEvent("kernel", name, ms) for name, ms in spent.items()]


def track(*events: TraceEvent, symbols: Symbols = BUILT, source: str = "") -> str:
    return attribute(events, symbols, source).track


@pytest.mark.parametrize(
    "name",
    [
        "void my::gelu_kernel<float>(float const*, float*, int)",
        "void my::gelu_kernel<float, (anonymous namespace)::Op<int> >(float const*)",
        "plain",
        "plain(float*)",
    ],
)
def test_a_kernel_that_the_built_library_defines_is_own(name):
    assert track(TraceEvent("kernel", name, 1.0)) == "own"


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::Add>(int)",
        "ampere_sgemm_128x64_nn",
        "sm90_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x32",
        "void cub::DeviceReduceKernel<float>(float*)",
        "kernel(float*)",
    ],
)
def test_a_kernel_that_nobody_saw_the_candidate_define_is_a_librarys(name):
    assert track(TraceEvent("kernel", name, 1.0)) == "library"


def test_half_and_half_is_mixed_and_says_who_did_what():
    found = attribute([TraceEvent("kernel", "plain", 1.0), TraceEvent("kernel", "gemv2T", 1.0)], BUILT, "")
    assert found.track == "mixed"
    assert found.own_share == 0.5
    assert set(found.kernels) == {"own: plain", "library: gemv2T"}


def test_copies_and_allocations_are_nobodys():
    assert (
        track(TraceEvent("kernel", "Memcpy DtoD (Device -> Device)", 9.0), TraceEvent("kernel", "plain", 1.0))
        == "own"
    )
    assert track(TraceEvent("operator", "aten::empty_like", 9.0), TraceEvent("call", "call", 1.0)) == "own"


def test_kernels_named_in_the_source_are_own_without_a_library():
    triton = "import triton\n@triton.autotune(configs=[])\n@triton.jit\ndef add_kernel(x): ...\n"
    assert track(TraceEvent("kernel", "add_kernel", 1.0), symbols=NOTHING, source=triton) == "own"
    assert track(TraceEvent("kernel", "add_kernel_0d1d2", 1.0), symbols=NOTHING, source=triton) == "own"
    assert (
        track(TraceEvent("kernel", "triton_poi_fused_add_0", 1.0), symbols=NOTHING, source=triton)
        == "library"
    )
    cuda = 'SOURCE = "extern \\"C\\" __global__ void __launch_bounds__(256) scale(float* x) {}"'
    assert track(TraceEvent("kernel", "scale", 1.0), symbols=NOTHING, source=cuda) == "own"


@pytest.mark.parametrize(
    ("kernel", "source"),
    [
        ("clipped_distance", "@triton.jit\ndef clipped_distance(x): ..."),
        ("triton_softmax", "@triton.jit\ndef triton_softmax(x): ..."),
        ("gemm", "def gemm(x): ...\nfast = triton.autotune(configs=[])(triton.jit(gemm))"),
        ("swish_kernel", "@tilelang.jit\ndef make():\n    @T.prim_func\n    def swish(x): ..."),
        ("swish_kernel_1", "@T.prim_func\ndef swish(x): ..."),
        ("kernel_cutlass_row_mean_tensorptrf32gmemo409632768_0", "@cute.kernel\ndef row_mean(x): ..."),
    ],
)
def test_what_compilers_call_a_candidates_function_is_own(kernel, source):
    assert track(TraceEvent("kernel", kernel, 1.0), symbols=NOTHING, source=source) == "own"


@pytest.mark.parametrize(
    ("kernel", "source"),
    [
        ("ampere_sgemm_128x64_nn", "@triton.jit\ndef ampere(x): ..."),
        ("ampere_sgemm_128x64_nn", "@triton.jit\ndef ampere_sgemm_128x64_nn(x): ..."),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "@triton.jit\ndef nvjet(x): ..."),
        ("sm90_xmma_gemm_f32f32_tn_n", "@triton.jit\ndef sm90_xmma_gemm_f32f32_tn_n(x): ..."),
        ("triton_red_fused_mean_0", "@triton.jit\ndef triton_red_fused_mean_0(x): ..."),
        ("void at::native::reduce_kernel<512, 1>(int)", "@triton.jit\ndef reduce_kernel(x): ..."),
        ("softmax_warp_forward", "@triton.jit\ndef softmax(x): ..."),
        ("fused", "@torch.jit.script\ndef fused(x): ..."),
        ("fused", "@cached(jit=True)\ndef fused(x): ..."),
        ("kernel_cutlass_other_tensor_0", "@cute.kernel\ndef row_mean(x): ..."),
    ],
)  # fmt: skip
def test_a_function_named_like_a_librarys_kernel_does_not_make_it_own(kernel, source):
    assert track(TraceEvent("kernel", kernel, 1.0), symbols=NOTHING, source=source) == "library"


def test_torch_operators_alone_are_a_librarys_work_whatever_is_defined():
    source = "@triton.jit\ndef decoy(x): ..."
    ran = [
        TraceEvent("kernel", "void at::native::reduce_kernel<512, 1>(int)", 1.0),
        TraceEvent("kernel", "decoy", 0.01),
    ]
    assert track(*ran, symbols=NOTHING, source=source) == "library"


def test_without_a_trace_nothing_is_own():
    assert track() == "unknown"
    assert track(symbols=NOTHING) == "library"
    assert "profiler died" in attribute([], BUILT, "", trouble="profiler died").source


def test_a_library_that_names_a_product_contradicts_a_trace_that_shows_none():
    found = attribute(
        [TraceEvent("kernel", "plain", 1.0)], BUILT.model_copy(update={"uses": ("cublasSgemm_v2",)}), ""
    )
    assert found.track == "mixed"
    assert "cublasSgemm_v2" in found.source


def test_on_the_cpu_what_no_operator_accounts_for_is_own_only_with_a_library():
    calls = (TraceEvent("call", "call", 1.0), TraceEvent("operator", "aten::relu", 0.01))
    assert track(*calls) == "own"
    assert track(*calls, symbols=NOTHING) == "library"
    assert track(TraceEvent("call", "call", 0.01), TraceEvent("operator", "aten::addmm", 1.0)) == "library"
    assert track(TraceEvent("operator", "mine::gelu", 1.0)) == "own"


def test_names_are_found_in_time_linear_in_the_source():
    hostile = "__global__ " * 20_000 + "@jit\n" * 20_000
    assert kernel_names(hostile) == frozenset()
    names = ("k_" + "1" * 290, "kernel_cutlass_" + "_" * 280, "a_kernel" * 37, "1a" * 150)
    assert (
        track(*(TraceEvent("kernel", name, 1.0) for name in names), source="@triton.jit\ndef f(): ...")
        == "library"
    )


@pytest.mark.parametrize(
    ("kernel", "base"),
    [
        ("void my::scale<float, 4>(float*, int)", "scale"),
        ("(anonymous namespace)::f(int)", "f"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_kernels_base_name(kernel, base):
    assert base_name(kernel) == base


def test_names_of_any_length_and_chains_of_any_depth_are_read():
    chain = ".".join("a" * 450)
    assert kernel_names(f"{chain}.kernel(f)\n{chain}(g)\ntorch.jit(h)\nmake(1).jit(i)\n") == {"f", "i"}
    assert kernel_names("x.y.jit = 1\n@triton.autotune(a)\n@triton.jit\ndef k(): ...") == {"k"}


def test_a_declaration_without_a_name_costs_no_more_than_its_length():
    began = time.perf_counter()
    assert kernel_names(("__global__" + "a" * 390) * 2_500) == frozenset()
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "source",
    [
        "import ctypes\nlibrary = ctypes.CDLL('libblas.so')",
        "from ctypes import CDLL\nlibrary = CDLL(None)",
        "import ctypes\nctypes.cdll.LoadLibrary(name)",
        "import torch\ntorch.ops.load_library('/usr/lib/other.so')",
        "from cffi import FFI\nlibrary = FFI().dlopen(None)",
    ],
)
def test_a_library_opened_by_its_name_is_mixed_at_best(source):
    found = attribute([TraceEvent("kernel", "plain", 1.0)], BUILT, source)
    assert found.track == "mixed"
    assert "names" in found.source


@pytest.mark.parametrize(
    "source",
    [
        "path = load_inline(name='a')\nlibrary = ctypes.CDLL(path)",
        "library = ctypes.CDLL(cpp_extension.load_inline(name='a', is_python_module=False))",
        "size = ctypes.c_long(3)\nmodule.load(size)",
        "not python (",
    ],
)
def test_a_library_that_the_module_built_is_its_own(source):
    assert attribute([TraceEvent("kernel", "plain", 1.0)], BUILT, source).track == "own"


def test_a_library_that_asks_the_loader_for_functions_is_mixed_at_best():
    asking = BUILT.model_copy(update={"uses": ("dlsym",)})
    assert attribute([TraceEvent("kernel", "plain", 1.0)], asking, "").track == "mixed"
