"""Whose a fault is, and how a process is started under a tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelwright.evaluator.analysis.sanitizer_reports import (
    Frame,
    read_address_sanitizer,
    read_compute_sanitizer,
)
from kernelwright.evaluator.analysis.sanitizers import (
    ADDRESS,
    CandidateCode,
    SanitizerRun,
    Sanitizers,
    assess_report,
    find_sanitizers,
)
from kernelwright.evaluator.sandbox import SandboxPolicy
from kernelwright.evaluator.schema.config import SandboxTier
from kernelwright.evaluator.schema.evaluation import Status

GOLDEN = Path(__file__).parents[2] / "golden" / "sanitizers"
MATMUL = 'SOURCE = r"""\n__global__ void matmul(const float* a, const float* b, float* c, int n) {}\n"""'


def _judged(
    name: str, source: str, *libraries: bytes, sources: dict[str, str] | None = None
) -> dict[str, object]:
    text = (GOLDEN / f"{name}.txt").read_text()
    reading = (read_address_sanitizer if "san" in name.partition("_")[0] else read_compute_sanitizer)(text)
    return assess_report("tool", reading, CandidateCode(source, libraries), sources or {})


def _status(name: str, source: str, *libraries: bytes) -> str:
    findings = _judged(name, source, *libraries)["findings"]
    assert isinstance(findings, list)
    return str(findings[0]["status"])


def test_a_race_in_a_kernel_of_the_source_convicts() -> None:
    assert _status("racecheck_missing_barrier", MATMUL) == Status.RACE


def test_a_race_in_a_kernel_the_candidate_did_not_write_is_a_remark() -> None:
    answer = _judged("racecheck_missing_barrier", "import torch  # calls matmul()")
    assert answer["complete"]
    assert answer["findings"] == [
        {
            "status": "",
            "text": "tool: Race reported between Read access, "
            "matmul(const float *, const float *, float *, int) (cuda.cu:31) and "
            "matmul(const float *, const float *, float *, int) (cuda.cu:22) (not in code of the candidate)",
        }
    ]


def test_a_kernel_named_by_a_macro_is_found_in_what_was_built() -> None:
    assert _status("racecheck_missing_barrier", "", b"\x7fELF..\0_Z6matmulPKfS0_Pfi\0") == Status.RACE
    assert _status("racecheck_missing_barrier", "", b'\x7fELF..\0matmul\0 extern "C"') == Status.RACE
    assert _status("racecheck_missing_barrier", "", b"\x7fELF..\0_Z7matmul2PKfS0_Pfi\0") == ""


def test_a_warning_convicts_nobody() -> None:
    assert _status("racecheck_warp_warning", "__global__ void warp_sum(float* x) {}") == ""


def test_races_around_barriers_in_ptx_leave_the_question_open() -> None:
    answer = _judged(
        "racecheck_missing_barrier", MATMUL + '\nasm volatile("mbarrier.arrive.shared.b64 ...");'
    )
    assert not answer["complete"]
    assert "PTX" in str(answer["why"])
    assert [finding["status"] for finding in answer["findings"]] == [""]  # type: ignore[attr-defined]  # a list


def test_an_overrun_convicts_and_shows_its_line() -> None:
    source = "__global__ void row_sum(const float* x, float* y, int n) {}"
    lines = "\n" * 16 + "  sum += x[row * n + i];\n"
    answer = _judged("memcheck_out_of_bounds", source, sources={"cuda.cu": lines})
    first, second = answer["findings"]  # type: ignore[misc]  # a list
    assert first["status"] == Status.MEMORY_ERROR
    assert "(cuda.cu:17: `sum += x[row * n + i];`)" in first["text"]
    assert "out of bounds" in first["text"]
    assert second["status"] == ""


def test_uninitialised_reads_and_barriers_are_remarks() -> None:
    assert _status("initcheck_uninitialized", "__global__ void accumulate(float* x, int n) {}") == ""
    assert _status("synccheck_barrier", "__global__ void broken_sync(float* x, unsigned long n) {}") == ""


MANGLED = b"_ZN2at6native4mineIfEEvT_"
AUTHORS = (
    ("void softmax<float, (int)256>(float *)", "template<class T> __global__ void softmax(T* x)", b"", True),
    ("(anonymous namespace)::kernel(float *)", "__global__ void kernel(float* x)", b"", True),
    ("mine::kernel(float *)", "namespace mine { __global__ void kernel(float* x) }", b"", True),
    ("kernel(float *)", "__global__ __launch_bounds__(256) void kernel(float* x)", b"", True),
    ("kernel(float *)", "def kernel(x): ...", b"", False),
    ("void at::native::reduce_kernel<(int)512>(T)", "__global__ void reduce_kernel(float* x)", b"", False),
    ("void at::native::mine<float>(T)", "", MANGLED, True),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32", "torch.mm", b"", False),
    ("", "", b"", False),
)


@pytest.mark.parametrize(("function", "source", "library", "expected"), AUTHORS)
def test_authors_are_told_from_libraries(function: str, source: str, library: bytes, expected: bool) -> None:
    assert CandidateCode(source, (library,)).contains(Frame(function)) is expected


def test_a_kernel_made_from_a_python_function_answers_for_memory_but_not_for_races() -> None:
    source = "@triton.jit\ndef matmul(a, b, c, n): ...\n\n@triton.jit\ndef row_sum(x, y, n): ..."
    assert _status("memcheck_out_of_bounds", source) == Status.MEMORY_ERROR
    assert _status("racecheck_missing_barrier", source) == ""


def test_host_faults_convict_by_the_library_on_the_stack() -> None:
    assert _status("asan_heap_overflow", "") == Status.MEMORY_ERROR
    text = (GOLDEN / "asan_heap_overflow.txt").read_text().replace("/kernelwright/libraries/7", "/usr/lib")
    findings = assess_report("address", read_address_sanitizer(text), CandidateCode("", ()), {})["findings"]
    assert findings[0]["status"] == ""


def test_of_undefined_behaviour_only_indices_out_of_bounds_convict() -> None:
    answer = _judged("ubsan", "")
    assert [finding["status"] for finding in answer["findings"]] == [Status.MEMORY_ERROR, "", ""]  # type: ignore[attr-defined]  # a list
    assert "not in code of the candidate" in answer["findings"][2]["text"]  # type: ignore[index]  # a list


def _policy() -> SandboxPolicy:
    return SandboxPolicy(
        tier=SandboxTier.NONE,
        memory_bytes=1 << 30,
        processes=8,
        file_bytes=1 << 20,
        scratch_bytes=1 << 20,
        environment={"A": "1"},
    )


def test_a_device_tool_logs_to_a_file_of_its_own() -> None:
    watch = SanitizerRun(Sanitizers(compute=Path("/usr/bin/compute-sanitizer"), preload=()), "racecheck")
    command = watch.command(["python", "-c", "pass"])
    assert command[:3] == ["/usr/bin/compute-sanitizer", "--tool", "racecheck"]
    assert command[command.index("--log-file") + 1] == f"/proc/self/fd/{watch.log}"
    assert command[-3:] == ["python", "-c", "pass"]
    policy = watch.policy(_policy())
    assert policy.nested
    assert policy.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
    assert policy.environment["A"] == "1"
    os.write(watch.log, b"========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")
    assert watch.report("========= Invalid __global__ read", "")["complete"]
    watch.close()


def test_a_tool_outside_the_system_folders_is_shown_to_the_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "compute-sanitizer"
    watch = SanitizerRun(Sanitizers(compute=program, preload=()), "memcheck")
    assert tmp_path in [bind.source for bind in watch.policy(_policy()).binds]
    watch.close()


def test_what_is_missing_is_said_per_device() -> None:
    nothing = Sanitizers(compute=None, preload=())
    assert "compute-sanitizer" in nothing.missing("cuda:0")
    assert "libasan" in nothing.missing("cpu")
    assert Sanitizers(None, (Path("/lib/libasan.so"),)).missing("cpu") == ""


def test_a_compiler_without_runtime_is_no_sanitizer(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho libasan.so\n")
    compiler.chmod(0o755)
    assert find_sanitizers(compiler).preload == ()
    assert ADDRESS not in find_sanitizers(tmp_path / "absent").missing("cuda:0")
