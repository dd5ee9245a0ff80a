from __future__ import annotations

import time

import pytest

from kernelwright.evaluator.building.build_plan import _FIRST_INCLUDE, BuildPlan, full_headers, plan_build
from kernelwright.evaluator.building.build_request import BuildRequest, InvalidRequest
from kernelwright.evaluator.building.flags import screen_flags
from kernelwright.evaluator.building.toolchain import Toolchain, find_toolchain


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return find_toolchain()


def _plan(toolchain: Toolchain, architecture: str | None = None, /, **fields: object) -> BuildPlan:
    request = BuildRequest.model_validate({"name": "ext", **fields})
    return plan_build(
        request,
        screen_flags(request),
        toolchain=toolchain,
        headers=full_headers(toolchain),
        architecture=architecture,
    )


def test_implicit_headers_and_bindings_are_those_of_torch(toolchain: Toolchain) -> None:
    plan = _plan(toolchain, cpp_sources=["int f();", "int g();"], functions={"f": "does f", "g": "g"})
    assert plan.files["main.cpp"].splitlines() == [
        "#include <torch/extension.h>",
        "int f();",
        "int g();",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {",
        'm.def("f", torch::wrap_pybind_function(f), "does f");',
        'm.def("g", torch::wrap_pybind_function(g), "g");',
        "}",
    ]
    assert "-DTORCH_EXTENSION_NAME=ext" in plan.compile[0]


def test_implicit_headers_and_wrappers_can_be_switched_off(toolchain: Toolchain) -> None:
    plan = _plan(
        toolchain,
        cpp_sources=["x"],
        functions={"f": "f"},
        no_implicit_headers=True,
        with_pytorch_error_handling=False,
    )
    assert plan.files["main.cpp"].splitlines()[0] == "x"
    assert 'm.def("f", f, "f");' in plan.files["main.cpp"]


def test_files_of_load_are_compiled_as_named_and_headers_are_not(toolchain: Toolchain) -> None:
    plan = _plan(
        toolchain,
        files={"src/a.cpp": "1", "src/b.cc": "2", "src/c.h": "3"},
        sources=["src/a.cpp", "src/b.cc"],
        include_paths=["src"],
    )
    assert [command[command.index("-c") + 1] for command in plan.compile] == ["src/a.cpp", "src/b.cc"]
    assert all("-Isrc" in command for command in plan.compile)
    assert "src/c.h" in plan.files


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a b", "cpp_sources": [""]},
        {"files": {"/etc/x.cpp": ""}, "sources": ["/etc/x.cpp"]},
        {"files": {"../x.cpp": ""}, "sources": ["../x.cpp"]},
        {"files": {}, "sources": ["x.cpp"]},
        {"files": {"x.py": ""}, "sources": ["x.py"]},
        {},
        {"cuda_sources": ["x"]},
    ],
)
def test_a_request_no_compiler_need_see_is_the_candidates_fault(
    toolchain: Toolchain, fields: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        _plan(toolchain, **fields)


def test_anything_that_changes_the_library_changes_the_key(toolchain: Toolchain) -> None:
    plans = [
        _plan(toolchain, cpp_sources=["a"]),
        _plan(toolchain, cpp_sources=["b"]),
        _plan(toolchain, cpp_sources=["a"], extra_cflags=["-O3"]),
        _plan(toolchain, cpp_sources=["a"], extra_ldflags=["-lm"]),
        _plan(toolchain, cpp_sources=["a"], functions={"f": "f"}),
        _plan(toolchain, cpp_sources=["a"], name="other"),
        _plan(toolchain, cpp_sources=["a"], files={"a.h": ""}),
    ]
    assert len({plan.key for plan in plans}) == len(plans)
    assert plans[0].key == _plan(toolchain, cpp_sources=["a"], extra_cflags=[""]).key


def test_cuda_sources_are_built_for_the_machines_architecture(toolchain: Toolchain) -> None:
    if toolchain.cuda is None:
        pytest.skip("no nvcc here")
    plan = _plan(
        toolchain,
        "sm_90",
        cpp_sources=[""],
        cuda_sources=["x"],
        extra_cuda_cflags=["-arch=sm_70", "--use_fast_math"],
        with_cuda=True,
    )
    assert plan.files["cuda.cu"].splitlines()[:3] == [
        "#include <torch/types.h>",
        "#include <cuda.h>",
        "#include <cuda_runtime.h>",
    ]
    nvcc = plan.compile[1]
    assert nvcc[0].endswith("nvcc")
    assert "-gencode=arch=compute_90,code=sm_90" in nvcc
    assert "--use_fast_math" in nvcc
    assert not any("sm_70" in word for word in nvcc)
    assert "-lcudart" in plan.link


@pytest.mark.parametrize(
    "name", ["-fplugin=x.cpp", "@options.cpp", "$(id).cu", "a`id`.cpp", "a;id.cpp", "a\0.cpp"]
)
def test_a_path_on_a_command_line_is_nothing_but_a_path(toolchain: Toolchain, name: str) -> None:
    with pytest.raises(InvalidRequest, match="may misread"):
        _plan(toolchain, files={name: ""}, sources=[name])
    with pytest.raises(InvalidRequest, match="may misread"):
        _plan(toolchain, cpp_sources=["x"], include_paths=[name])


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("#include <torch/extension.h>\n", True),
        ('  // a\n/* b */\n/**/ #  include "torch/extension.h"\n', True),
        ("/* b */ int x; /* c */\n#include <torch/extension.h>\n", False),
        ("#include <torch/all.h>\n", False),
        ("/**/" * 250_000 + "\n#include <torch/all.h>\n", False),
        ("/**/" * 250_000 + "\n#include <torch/extension.h>\n", True),
        ("/*" * 500_000, False),
        (" " * 1_000_000, False),
        (" \n//" * 250_000, False),
        ("//\n" * 250_000 + "#" + " " * 250_000, False),
    ],
    ids=range(10),
)
def test_whether_a_source_begins_with_torchs_header_is_told_in_linear_time(text: str, begins: bool) -> None:
    began = time.perf_counter()
    assert bool(_FIRST_INCLUDE.match(text)) == begins
    assert time.perf_counter() - began < 2
