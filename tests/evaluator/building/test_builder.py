from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.evaluator.building.build_request import BuildOutcome, BuildRequest
from kernelwright.evaluator.building.builder import Builder
from kernelwright.evaluator.sandbox import Launcher, probe, strongest
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.errors import MachineError

MODULE = """
#include <Python.h>
#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, TEXT(TORCH_EXTENSION_NAME), "%s", -1};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def builder(tmp_path: Path, launcher: Launcher) -> Builder:
    return Builder(cache=tmp_path, launcher=launcher, tier=strongest(None))


def _request(source: str = MODULE % "a doc", **fields: object) -> BuildRequest:
    return BuildRequest.model_validate(
        {"name": "ext", "cpp_sources": [source], "no_implicit_headers": True, **fields}
    )


def _build(builder: Builder, request: BuildRequest, timeout_s: float = 60) -> BuildOutcome:
    return builder.build(request, architecture=None, timeout_s=timeout_s)


def _load(outcome: BuildOutcome) -> Any:
    assert outcome.build.ok, outcome.build.log
    spec = importlib.util.spec_from_file_location(outcome.build.name, outcome.shared_object)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_built_module_loads_and_the_second_build_is_a_cache_hit(builder: Builder, tmp_path: Path) -> None:
    first = _build(builder, _request())
    assert _load(first).__doc__ == "a doc"
    assert not first.build.cached
    again = _build(builder, _request())
    assert again.build.cached
    assert again.shared_object == first.shared_object
    assert not list((tmp_path / "staging").iterdir())


@pytest.mark.parametrize("tier", list(SandboxTier))
def test_every_sandbox_tier_builds(tier: SandboxTier, tmp_path: Path, launcher: Launcher) -> None:
    if not probe().tiers[tier].works:
        pytest.skip(f"{tier} does not work here")
    builder = Builder(cache=tmp_path, launcher=launcher, tier=tier)
    assert _load(_build(builder, _request())).__doc__ == "a doc"
    assert not _build(builder, _request("int f( {")).build.ok


def test_a_request_of_another_version_is_as_good_as_forgotten(builder: Builder, tmp_path: Path) -> None:
    key = _build(builder, _request()).build.key
    for text in (None, "not a request", '{"name": "ext", "of_another_version": 1}'):
        if text is not None:
            next((tmp_path / "entries").glob(f"*/{key}")).joinpath("request.json").write_text(text)
        assert builder.rebuild_with_full_headers(key, architecture=None, timeout_s=60) is None


def test_load_builds_several_files_and_their_headers(builder: Builder) -> None:
    request = BuildRequest(
        name="ext",
        files={
            "src/main.cpp": '#include "doc.h"\n#include <Python.h>\n' + MODULE % "DOC",
            "src/doc.cc": "extern const int answer = 42;",
            "src/doc.h": "extern const int answer;",
        },
        sources=("src/main.cpp", "src/doc.cc"),
    )
    assert _load(_build(builder, request))


def test_a_compile_error_is_an_answer_that_names_the_line(builder: Builder) -> None:
    outcome = _build(builder, _request("int f() { return undeclared; }"))
    assert not outcome.build.ok
    assert "main.cpp:1:" in outcome.build.log
    assert "undeclared" in outcome.build.log
    assert outcome.shared_object is None
    assert _build(builder, _request("int f() { return undeclared; }")).build.cached


def test_a_link_error_is_an_answer(builder: Builder) -> None:
    outcome = _build(builder, _request(extra_ldflags=["-lcusparseXYZ"]))
    assert not outcome.build.ok
    assert "cusparseXYZ" in outcome.build.log


def test_a_refused_flag_is_an_answer(builder: Builder) -> None:
    outcome = _build(builder, _request(extra_cflags=["-fplugin=/tmp/x.so"]))
    assert not outcome.build.ok
    assert "'-fplugin=/tmp/x.so' is not allowed" in outcome.build.log


def test_a_time_out_is_an_answer_that_is_not_kept(builder: Builder) -> None:
    endless = "template<int N> struct T { static const int v = T<N-1>::v + T<N-2>::v + sizeof(T<N-1>); };"
    slow = _request(
        endless
        + "template<int A, int B> constexpr long f() { long s = 0; for (long i = 0; i < 1L << 40; ++i) "
        "s += i; return s; } constexpr long x = f<1, 2>();",
        extra_cflags=["-fconstexpr-loop-limit=2000000000", "-fconstexpr-ops-limit=9000000000000"],
    )
    outcome = _build(builder, slow, timeout_s=1)
    assert not outcome.build.ok
    assert outcome.build.timed_out
    assert "did not finish in 1 s" in outcome.build.log
    assert not _build(builder, slow, timeout_s=1).build.cached


def test_the_build_reads_nothing_of_the_host(builder: Builder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("int leaked = 1;")
    for path in (secret, Path(__file__), Path("/etc/hostname")):
        outcome = _build(builder, _request(f'#include "{path}"\n{MODULE % "x"}'))
        assert not outcome.build.ok
        assert "No such file" in outcome.build.log or "Permission denied" in outcome.build.log


def test_identical_builds_in_flight_are_built_once(builder: Builder) -> None:
    outcomes: list[BuildOutcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(_build(builder, _request()))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.build.cached for outcome in outcomes) == [False, *[True] * 5]


def test_threads_that_build_first_share_one_set_of_headers(builder: Builder) -> None:
    ready, found = threading.Barrier(8), []

    def look() -> None:
        ready.wait()
        found.append(builder.tiers)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each is found[0] for each in found)


def test_hostile_text_is_an_answer(builder: Builder) -> None:
    for fields in (
        {"files": {"a": "", "a/b.cpp": ""}, "sources": ["a/b.cpp"]},
        {"files": {"a\0.cpp": ""}, "sources": ["a\0.cpp"]},
        {"cpp_sources": ["\0\x01 int"]},
        {"cpp_sources": ["#include __FILE__"]},
        {"cpp_sources": ['asm(".incbin \\"/etc/shadow\\"");']},
    ):
        assert not _build(builder, _request(**fields)).build.ok


def test_no_compiler_is_one_clear_line(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineError, match=r"no C\+\+ compiler found \(g\+\+ or clang\+\+\); install g\+\+"):
        _build(builder, _request())


def test_a_missing_nvcc_is_one_clear_line(builder: Builder) -> None:
    if builder.toolchain.cuda is not None:
        pytest.skip("nvcc is here")
    with pytest.raises(MachineError, match="nvcc"):
        builder.build(_request(cuda_sources=["x"], with_cuda=True), architecture="sm_90", timeout_s=60)
