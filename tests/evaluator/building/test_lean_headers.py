"""The lean headers, on this machine's torch. The toolbox made here is kept: it takes a minute."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.building.lean_headers.suspicion import first_error
from kernelwright.evaluator.sandbox import Launcher, strongest
from tests.toolboxes import hand_over, keep

FUNCTIONS = r"""
#include <torch/extension.h>
#include <map>

std::tuple<torch::Tensor, int64_t> pair_up(const torch::Tensor& x, int64_t n) { return {x + n, n * 2}; }
std::vector<torch::Tensor> halves(torch::Tensor x) { return x.chunk(2, 0); }
torch::Tensor total(std::vector<torch::Tensor> list, c10::optional<torch::Tensor> more, double scale) {
  torch::Tensor sum = torch::zeros_like(list.at(0));
  for (auto& x : list) sum += x;
  if (more) sum = sum + more.value();
  return sum * scale;
}
int kind(bool) { return 1; }
int kind(const std::string& text) { return static_cast<int>(text.size()); }
void fill(torch::Tensor x, torch::Scalar value) { x.fill_(value); }
torch::Tensor fail(const std::string& how) {
  if (how == "check") TORCH_CHECK(false, "no ", 3, " things of ", torch::kFloat);
  if (how == "index") TORCH_CHECK_INDEX(false, "out there");
  if (how == "value") throw std::invalid_argument("bad value");
  if (how == "size") torch::zeros({2}).size(5);
  if (how == "type") torch::zeros({2}).data_ptr<double>();
  if (how == "undefined") torch::Tensor().sizes();
  return torch::zeros({2}).matmul(torch::zeros({3}));
}
torch::Tensor indexed(torch::Tensor x) {
  using namespace torch::indexing;
  x = x.clone();
  x.index_put_({0, Slice(1, None, 2)}, 7.0);
  x[1][0] = -1;
  return x.index({"...", Slice(None, -1)});
}
std::string described(torch::Tensor x) {
  std::ostringstream out;
  out << x.sizes() << " " << x.dtype() << " " << x.scalar_type() << " " << x.device() << " " << x.strides();
  return out.str();
}
torch::Tensor made() {
  auto a = torch::tensor({1, 2, 3});
  auto b = torch::tensor({0.5, 1.5, 2.5}, torch::dtype(torch::kFloat64));
  auto c = torch::full({3}, 2, torch::TensorOptions().dtype(torch::kInt32).device(torch::kCPU));
  return torch::where(a > 1, b, c.to(torch::kDouble)) + torch::arange(3) - 1.0 / b;
}
torch::Tensor reduced(torch::Tensor x) {
  auto result = torch::empty({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "reduced", [&] {
    using acc = at::acc_type<scalar_t, false>;
    auto in = x.accessor<scalar_t, 2>();
    auto out = result.accessor<scalar_t, 1>();
    at::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        acc sum = 0;
        for (int64_t j = 0; j < in.size(1); ++j) sum += static_cast<acc>(in[i][j]);
        out[i] = static_cast<scalar_t>(sum);
      }
    });
  });
  return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "many things";
  m.def("pair_up", &pair_up, "adds", py::arg("x"), py::arg("n") = 3);
  m.def("halves", &halves);
  m.def("total", &total, py::arg("list"), py::arg("more") = py::none(), py::arg("scale") = 1);
  m.def("kind", static_cast<int (*)(bool)>(&kind));
  m.def("kind", static_cast<int (*)(const std::string&)>(&kind));
  m.def("fill", torch::wrap_pybind_function(fill), "fills");
  m.def("fail", torch::wrap_pybind_function(fail));
  m.def("fail_unwrapped", &fail);
  m.def("indexed", &indexed);
  m.def("described", &described);
  m.def("made", &made, py::call_guard<py::gil_scoped_release>());
  m.def("reduced", &reduced);
  m.def("twice", [](torch::Tensor x) { return x * 2; });
}
"""


@pytest.fixture(scope="module")
def builder(shared_cache: Path, kept_toolboxes: Path) -> Iterator[Builder]:
    with Launcher() as launcher:
        made = Builder(cache=shared_cache / "builds", launcher=launcher, tier=strongest(None))
        toolbox = made.tiers.lean(make=True)
        assert toolbox is not None
        keep(toolbox.folder, kept_toolboxes)
        yield made


def _build(builder: Builder, source: str, **fields: object) -> BuildOutcome:
    request = BuildRequest.model_validate({"name": "lean_test", "cpp_sources": [source], **fields})
    return builder.build(request, architecture=None, timeout_s=300)


def _load(outcome: BuildOutcome) -> Any:
    assert outcome.build.ok, outcome.build.log
    assert outcome.build.tier == "lean"
    spec = importlib.util.spec_from_file_location(outcome.build.name, outcome.shared_object)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lean(builder: Builder) -> Any:
    return _load(_build(builder, FUNCTIONS, extra_cflags=["-O2", "-fopenmp"]))


def test_arguments_and_results_of_every_kind_cross(lean: Any) -> None:
    x = torch.randn(4, 3)
    assert lean.__doc__ == "many things"
    total, n = lean.pair_up(x)
    assert torch.equal(total, x + 3)
    assert n == 6
    assert lean.pair_up(n=1, x=x)[1] == 2
    assert [part.shape for part in lean.halves(x)] == [(2, 3), (2, 3)]
    assert torch.equal(lean.total([x, x]), x * 2)
    assert torch.equal(lean.total((x, x), more=x, scale=0.5), x * 1.5)
    assert (lean.kind(True), lean.kind("four")) == (1, 4)
    assert lean.fill(x, 2.5) is None
    assert x.unique().tolist() == [2.5]
    assert torch.equal(lean.twice(x), x * 2)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda lean: lean.fail("check"), RuntimeError, "no 3 things of Float"),
        (lambda lean: lean.fail("index"), IndexError, "out there"),
        (lambda lean: lean.fail("value"), RuntimeError, "bad value"),
        (lambda lean: lean.fail_unwrapped("value"), ValueError, "bad value"),
        (lambda lean: lean.fail("size"), IndexError, "Dimension out of range"),
        (lambda lean: lean.fail("type"), RuntimeError, "expected scalar type Double but found Float"),
        (lambda lean: lean.fail("undefined"), RuntimeError, "undefined Tensor"),
        (lambda lean: lean.fail("matmul"), RuntimeError, "inconsistent tensor size"),
        (lambda lean: lean.pair_up(1), TypeError, "incompatible function arguments"),
        (lambda lean: lean.pair_up(torch.zeros(1), 1.5), TypeError, "incompatible function arguments"),
        (lambda lean: lean.pair_up(torch.zeros(1), 2**70), TypeError, "incompatible function arguments"),
        (lambda lean: lean.pair_up(torch.zeros(1), x=torch.zeros(1)), TypeError, "incompatible"),
        (lambda lean: lean.total([torch.zeros(1), None]), TypeError, "incompatible function arguments"),
    ],
)
def test_faults_arrive_as_torch_and_pybind_raise_them(
    lean: Any, call: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(lean)


def test_tensors_are_indexed_described_and_made_as_in_torch(lean: Any) -> None:
    x = torch.randn(2, 5)
    expected = x.clone()
    expected[0, 1::2] = 7.0
    expected[1, 0] = -1
    assert torch.equal(lean.indexed(x), expected[..., :-1])
    assert lean.described(x.t().half()) == "[5, 2] c10::Half Half cpu [1, 5]"
    a, b = torch.tensor([1, 2, 3]), torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64)
    assert torch.allclose(lean.made(), torch.where(a > 1, b, 2.0) + torch.arange(3) - 1 / b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_accessors_and_dispatch_reach_every_type(lean: Any, dtype: torch.dtype) -> None:
    x = torch.randn(6, 40).to(dtype)
    assert torch.allclose(lean.reduced(x).double(), x.double().sum(1), rtol=1e-2, atol=1e-2)
    with pytest.raises(NotImplementedError, match="\"reduced\" not implemented for 'Int'"):
        lean.reduced(x.int())


def test_operators_are_registered_with_the_dispatcher(builder: Builder) -> None:
    source = """
#include <torch/library.h>
at::Tensor add_all(at::TensorList list, double by, const c10::optional<at::Tensor>& more) {
  at::Tensor sum = at::full_like(list[0], by);
  for (const at::Tensor& x : list) sum.add_(x);
  return more.has_value() ? sum + *more : sum;
}
std::tuple<at::Tensor, int64_t> both(const at::Tensor& x) { return {x * 2, x.size(0)}; }
TORCH_LIBRARY(kw_lean_test, m) {
  m.def("add_all(Tensor[] list, float by, Tensor? more=None) -> Tensor", &add_all);
  m.def("both(Tensor x) -> (Tensor, int)");
}
TORCH_LIBRARY_IMPL(kw_lean_test, CPU, m) { m.impl("both", both); }
"""
    outcome = _build(builder, source, is_python_module=False)
    assert outcome.build.tier == "lean", outcome.build.log
    torch.ops.load_library(str(outcome.shared_object))
    x = torch.randn(3)
    assert torch.equal(torch.ops.kw_lean_test.add_all([x, x], 1.0), 1.0 + x + x)
    assert torch.allclose(torch.ops.kw_lean_test.add_all([x], 0.0, x), x + x)
    doubled, size = torch.ops.kw_lean_test.both(x)
    assert torch.equal(doubled, x * 2)
    assert size == 3


def test_a_typo_of_the_candidate_is_not_tried_again(builder: Builder) -> None:
    outcome = _build(builder, "torch::Tensor f(torch::Tensor x) {\n  int n = undeclared;\n  return x;\n}")
    assert not outcome.build.ok
    assert outcome.build.tier == "lean"
    assert "main.cpp:3:11: error: 'undeclared' was not declared" in outcome.build.log


def test_the_module_may_have_any_name_and_flags_with_precompiled_headers(builder: Builder) -> None:
    source = "torch::Tensor f(torch::Tensor x) { return x + VALUE; }"
    for number, name in enumerate(("first", "second", "third", "fourth")):
        flags = ["-O1", f"-DVALUE={number}"]
        lean = _load(_build(builder, source, name=name, functions={"f": "f"}, extra_cflags=flags))
        assert lean.__name__ == name
        assert lean.f(torch.zeros(1)).item() == number


def test_two_modules_of_one_name_live_side_by_side(builder: Builder) -> None:
    one, two = (
        _load(_build(builder, f"int64_t f() {{ return {number}; }}", functions={"f": "f"}))
        for number in (1, 2)
    )
    assert (one.f(), two.f()) == (1, 2)


def test_nn_functional_answers_as_torch_does(builder: Builder) -> None:
    source = """
namespace F = torch::nn::functional;
std::vector<torch::Tensor> f(torch::Tensor x, torch::Tensor w) {
  auto conv = F::conv2d(x, w, F::Conv2dFuncOptions().stride(2).padding({1, 0}));
  return {F::relu(conv), F::max_pool2d(x, F::MaxPool2dFuncOptions(2).stride(1)), F::gelu(x),
          F::layer_norm(x, F::LayerNormFuncOptions({x.size(-1)}).eps(1e-3)),
          F::linear(x, w.reshape({-1, x.size(-1)})), F::softmax(x, F::SoftmaxFuncOptions(-1)),
          F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.3))};
}
"""
    x, w = torch.randn(2, 3, 8, 6), torch.randn(4, 3, 3, 3)
    functional = torch.nn.functional
    expected = [
        functional.conv2d(x, w, stride=2, padding=(1, 0)).relu(),
        functional.max_pool2d(x, 2, stride=1),
        functional.gelu(x),
        functional.layer_norm(x, (6,), eps=1e-3),
        functional.linear(x, w.reshape(-1, 6)),
        x.softmax(-1),
        functional.leaky_relu(x, 0.3),
    ]
    for actual, right in zip(
        _load(_build(builder, source, functions={"f": "f"})).f(x, w), expected, strict=True
    ):
        torch.testing.assert_close(actual, right)


def test_only_what_computes_may_answer_wrongly(builder: Builder) -> None:
    own = """
torch::Tensor f(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == torch::kFloat, "a matrix of floats, not ", x.sizes());
  x = x.contiguous();
  auto out = torch::empty_like(x);
  at::parallel_for(0, x.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
  });
  return out;
}
"""
    assert not _build(builder, own, functions={"f": "f"}, extra_cflags=["-fopenmp"]).suspect
    tested = "torch::Tensor f(torch::Tensor x) { return torch::matmul(x, x.t().contiguous()); }"
    assert not _build(builder, tested, functions={"f": "f"}).suspect
    borrowed = "torch::Tensor f(torch::Tensor x) { return x + VALUE; }"
    assert _build(builder, borrowed, functions={"f": "f"}, extra_cflags=["-O1", "-DVALUE=0"]).suspect
    assert _build(
        builder, borrowed, functions={"f": "f"}, extra_cflags=["-DVALUE=0"], extra_ldflags=["-s"]
    ).suspect


def test_what_the_cache_holds_is_built_again_with_torchs_own_headers(builder: Builder) -> None:
    source = """
#include <Python.h>
#if FUSSY && !__has_include(<kernelwright/tensor.h>)
#error only lean headers will do
#endif
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "ext", nullptr, -1};
PyMODINIT_FUNC PyInit_ext() { return PyModule_Create(&definition); }
"""
    for fussy in (0, 1):
        flags = [f"-DFUSSY={fussy}"]
        lean = _build(builder, source, name="ext", no_implicit_headers=True, extra_cflags=flags).build
        assert (lean.ok, lean.tier) == (True, "lean")
        plain = builder.rebuild_with_full_headers(lean.key, architecture=None, timeout_s=300)
        assert plain is not None
        assert (plain.ok, plain.tier) == (not fussy, "full")
    assert first_error(plain.log) == "main.cpp:4:2: error: #error only lean headers will do"
    assert builder.rebuild_with_full_headers("0" * 64, architecture=None, timeout_s=300) is None


@pytest.mark.slow
def test_outputs_under_lean_headers_are_those_under_torchs_own(
    builder: Builder, kept_toolboxes: Path, tmp_path: Path
) -> None:
    hand_over(kept_toolboxes, tmp_path)
    script = Path(__file__).parents[2] / "benchmarks" / "build.py"
    command = [sys.executable, str(script), "--parity", "--only", "cpp_(15|19)"]
    command += ["--cache", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("the same") == 2


@pytest.mark.slow
def test_what_lean_headers_lack_is_built_with_real_ones(builder: Builder) -> None:
    source = "torch::Tensor f(torch::Tensor x) { return torch::fft::fft(x).abs(); }"
    outcome = _build(builder, source, functions={"f": "f"})
    assert outcome.build.ok, outcome.build.log
    assert outcome.build.tier == "full"
