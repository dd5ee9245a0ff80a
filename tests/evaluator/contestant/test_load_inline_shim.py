from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from kernelwright.evaluator.building.build_request import BuildRequest
from kernelwright.evaluator.contestant import load_inline_shim
from kernelwright.evaluator.ipc.contestant_messages import Built

SOURCE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "ext", "DOC", -1};
PyMODINIT_FUNC PyInit_ext(void) { return PyModule_Create(&definition); }
"""


class Referee:
    """The other end of a request: notes what was asked and answers with what it is told to."""

    def __init__(self) -> None:
        self.asked: list[BuildRequest] = []
        self.reply = Built(ok=False, path="", module_name="", log="main.cpp:1: error: no")

    def __call__(self, fields: dict[str, Any]) -> Built:
        self.asked.append(BuildRequest.model_validate(fields))
        return self.reply


@pytest.fixture
def referee(monkeypatch: pytest.MonkeyPatch) -> Referee:
    for name in ("load_inline", "load", "is_ninja_available", "verify_ninja_availability", "CUDA_HOME"):
        monkeypatch.setattr(cpp_extension, name, getattr(cpp_extension, name))
    referee = Referee()
    load_inline_shim.install(referee)
    return referee


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "ext.c").write_text(SOURCE)
    include = sysconfig.get_path("include")
    made = tmp_path / "built.so"
    command = [
        "g++",
        "-shared",
        "-fPIC",
        f"-I{include}",
        "-x",
        "c++",
        str(tmp_path / "ext.c"),
        "-o",
        str(made),
    ]
    subprocess.run(command, check=True)
    return made


def _ask(function: str, *args: object, **kwargs: object) -> None:
    with pytest.raises(RuntimeError, match=r"Error building extension 'ext': main.cpp:1: error: no"):
        getattr(cpp_extension, function)(*args, **kwargs)


def test_load_inline_becomes_a_request(referee: Referee) -> None:
    _ask(
        "load_inline",
        name="ext",
        cpp_sources="int f();",
        cuda_sources=["a", "b"],
        functions=["f"],
        extra_cflags=["-O3", ""],
        extra_cuda_cflags=["--use_fast_math"],
        extra_ldflags=["-lcublas"],
        verbose=True,
    )
    assert referee.asked == [
        BuildRequest(
            name="ext",
            cpp_sources=("int f();",),
            cuda_sources=("a", "b"),
            functions={"f": "f"},
            extra_cflags=("-O3", ""),
            extra_cuda_cflags=("--use_fast_math",),
            extra_ldflags=("-lcublas",),
            with_cuda=True,
        )
    ]


def test_positions_and_defaults_are_those_of_this_torch(referee: Referee) -> None:
    _ask("load_inline", "ext", "int f();", functions={"f": "does f"}, is_python_module=False)
    _ask("load_inline", "ext", [""], functions="f", with_cuda=True)
    first, second = referee.asked
    assert (first.functions, first.is_python_module, first.with_cuda) == ({"f": "does f"}, False, False)
    assert (second.functions, second.cuda_sources, second.with_cuda) == ({"f": "f"}, (), True)


def test_load_sends_the_sources_and_the_headers_beside_them(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "src").mkdir()
    (tmp_path / "include" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.cpp").write_text("A")
    (tmp_path / "src" / "k.cu").write_text("K")
    (tmp_path / "src" / "k.cuh").write_text("H")
    (tmp_path / "src" / "notes.txt").write_text("N")
    (tmp_path / "include" / "deep" / "d.h").write_text("D")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _ask(
        "load",
        "ext",
        [str(tmp_path / "src" / "a.cpp"), str(tmp_path / "src" / "k.cu")],
        extra_include_paths=[str(tmp_path / "include"), "/usr/local/cuda/include"],
    )
    (request,) = referee.asked
    assert request.files == {"src/a.cpp": "A", "src/k.cu": "K", "src/k.cuh": "H", "include/deep/d.h": "D"}
    assert request.sources == ("src/a.cpp", "src/k.cu")
    assert request.include_paths == ("include",)
    assert request.extra_cflags == ("-I/usr/local/cuda/include",)
    assert request.with_cuda


def test_a_missing_source_is_a_build_error(referee: Referee) -> None:
    with pytest.raises(RuntimeError, match=r"source '/nowhere/x.cpp' does not exist"):
        cpp_extension.load("ext", ["/nowhere/x.cpp"])
    assert not referee.asked


def test_the_library_that_comes_back_is_imported(referee: Referee, library: Path) -> None:
    referee.reply = Built(ok=True, path=str(library), module_name="ext", log="")
    module = cpp_extension.load_inline("ext", "anything")
    assert module.__doc__ == "DOC"


def test_a_plain_library_is_only_loaded(referee: Referee, library: Path) -> None:
    referee.reply = Built(ok=True, path=str(library), module_name="ext", log="")
    cpp_extension.load_inline("ext", "anything", is_python_module=False)
    assert str(library) in torch.ops.loaded_libraries


def test_lone_surrogates_are_replaced(referee: Referee) -> None:
    _ask("load_inline", "ext", "int \ud800;")
    assert referee.asked[0].cpp_sources == ("int ?;",)


def test_what_is_not_built_here_is_a_build_error(referee: Referee) -> None:
    with pytest.raises(RuntimeError, match="Error building extension 'ext'"):
        cpp_extension.load("ext", [], is_python_module=False, is_standalone=True)
    with pytest.raises(TypeError):
        cpp_extension.load_inline("ext", "x", no_such_argument=1)
    with pytest.raises(ValueError, match="Expected 'functions'"):
        cpp_extension.load_inline("ext", "x", functions=1)
    assert not referee.asked


def test_looking_for_tools_is_harmless(referee: Referee) -> None:
    assert cpp_extension.is_ninja_available() is True
    cpp_extension.verify_ninja_availability()


def test_a_library_that_lacks_a_lean_symbol_is_built_again_with_full_headers(
    referee: Referee, library: Path
) -> None:
    broken = library.with_name("broken.so")
    source = (
        SOURCE
        + "namespace kernelwright { int missing(); }\n"
        + 'extern "C" int call() { return kernelwright::missing(); }'
    )
    include = sysconfig.get_path("include")
    command = ["g++", "-shared", "-fPIC", f"-I{include}", "-x", "c++", "-", "-o", str(broken), "-Wl,-z,now"]
    subprocess.run(command, input=source.encode(), check=True)
    paths = [str(broken), str(library)]
    referee_asks = referee.asked

    def build(fields: dict[str, Any]) -> Built:
        referee(fields)
        return Built(ok=True, path=paths[len(referee_asks) - 1], module_name="ext", log="")

    load_inline_shim.install(build)
    assert cpp_extension.load_inline("ext", "anything").__doc__ == "DOC"
    assert [request.full_headers for request in referee_asks] == [False, True]
