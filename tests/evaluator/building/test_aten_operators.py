from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.evaluator.building.lean_headers.aten_operators import Operator, read_functions, read_methods
from kernelwright.evaluator.building.toolchain import find_toolchain


@pytest.fixture(scope="module")
def include() -> Path:
    return find_toolchain().torch.include_dirs[0]


def _named(operators: list[Operator], name: str, *, method: bool) -> list[str]:
    return [operator.declaration(method=method) for operator in operators if operator.name == name]


def test_a_function_keeps_its_overloads_and_defaults(include: Path) -> None:
    functions = read_functions(include, ["sum", "empty"])
    assert _named(functions, "sum", method=False) == [
        "Tensor sum(const Tensor& self, std::optional<ScalarType> dtype = std::nullopt);",
        "Tensor sum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim = false,"
        " std::optional<ScalarType> dtype = std::nullopt);",
    ]
    assert _named(functions, "empty", method=False) == [
        "Tensor empty(IntArrayRef size, TensorOptions options = {},"
        " std::optional<MemoryFormat> memory_format = std::nullopt);"
    ]
    assert _named(functions, "sum_out", method=False)


def test_a_method_brings_its_inplace_variant(include: Path) -> None:
    methods = read_methods(include, ["mul", "to"])
    assert "Tensor mul(const Tensor& other) const;" in _named(methods, "mul", method=True)
    assert "Tensor& mul_(const Scalar& other) const;" in _named(methods, "mul_", method=True)
    assert len(_named(methods, "to", method=True)) >= 4


def test_a_generator_left_at_its_default_is_left_out(include: Path) -> None:
    methods = read_methods(include, ["uniform"])
    assert _named(methods, "uniform_", method=True) == [
        "Tensor& uniform_(double from = 0, double to = 1) const;"
    ]


def test_types_the_lean_headers_lack_are_left_out(include: Path) -> None:
    for operator in (*read_functions(include, ["index", "rand"]), *read_methods(include, ["index"])):
        assert "Generator" not in operator.declaration(method=False)
        assert "List<" not in operator.declaration(method=False).replace("TensorList", "")


def test_definitions_hand_the_call_on(include: Path) -> None:
    (zeros,) = [each for each in read_functions(include, ["zeros"]) if each.name == "zeros"]
    assert zeros.definition(method=False) == (
        "Tensor zeros(IntArrayRef size, TensorOptions options)"
        " { return finish(::at::zeros(real(size), real(options)), options); }"
    )
    (relu_,) = [each for each in read_methods(include, ["relu"]) if each.name == "relu_"]
    assert relu_.definition(method=True) == (
        "Tensor& Tensor::relu_() const { real(*this).relu_(); return const_cast<Tensor&>(*this); }"
    )
