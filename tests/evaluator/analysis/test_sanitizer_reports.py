from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.evaluator.analysis.sanitizer_reports import (
    FaultKind,
    Frame,
    SanitizerReport,
    read_address_sanitizer,
    read_compute_sanitizer,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "sanitizers"


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_OF_RACES = (
    "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
)


def _only(reading: SanitizerReport) -> tuple[FaultKind, str, tuple[Frame, ...]]:
    assert reading.complete, reading.why
    assert len(reading.faults) == 1
    fault = reading.faults[0]
    return fault.kind, fault.headline, fault.frames


def test_an_overrun_seen_by_many_threads_is_one_fault_with_its_place() -> None:
    reading = read_compute_sanitizer(golden("memcheck_out_of_bounds"))
    assert reading.complete
    memory, api = reading.faults
    assert memory.kind is FaultKind.MEMORY
    assert memory.headline == "Invalid __global__ read of size 4 bytes"
    assert memory.frames == (Frame("row_sum(const float *, float *, int)", "cuda.cu:17"),)
    assert "out of bounds" in memory.detail
    assert "thread (96,0,0)" in memory.detail
    assert api.kind is FaultKind.OTHER
    assert api.frames == ()


def test_a_race_names_every_access_that_takes_part() -> None:
    kind, headline, frames = _only(read_compute_sanitizer(golden("racecheck_missing_barrier")))
    assert kind is FaultKind.RACE
    assert headline == "Race reported between Read access"
    assert [frame.place for frame in frames] == ["cuda.cu:31", "cuda.cu:22", "cuda.cu:27"]
    assert {frame.function for frame in frames} == {"matmul(const float *, const float *, float *, int)"}


def test_a_warning_of_racecheck_is_not_severe() -> None:
    assert not read_compute_sanitizer(golden("racecheck_warp_warning")).faults[0].severe
    assert read_compute_sanitizer(golden("racecheck_missing_barrier")).faults[0].severe


def test_single_hazards_are_races_too() -> None:
    kind, _, frames = _only(read_compute_sanitizer(golden("racecheck_hazard")))
    assert kind is FaultKind.RACE
    assert frames == (Frame("scatter(int *)", "cuda.cu:20"),) * 2


def test_reads_of_uninitialised_memory_are_told_apart() -> None:
    kind, headline, frames = _only(read_compute_sanitizer(golden("initcheck_uninitialized")))
    assert kind is FaultKind.UNINITIALIZED
    assert headline == "Uninitialized __global__ memory read of size 4 bytes"
    assert frames[0].place == "cuda.cu:9"


def test_a_device_frame_names_the_kernel_behind_an_intrinsic() -> None:
    kind, _, frames = _only(read_compute_sanitizer(golden("synccheck_barrier")))
    assert kind is FaultKind.BARRIER
    assert frames[1] == Frame("broken_sync(float *, unsigned long)", "cuda.cu:12")


def test_older_reports_put_the_offset_first() -> None:
    kind, _, frames = _only(read_compute_sanitizer(golden("memcheck_2021")))
    assert kind is FaultKind.MEMORY
    assert frames == (Frame("void tile<(int)32>(double *)", "cuda.cu:40"),)


@pytest.mark.parametrize("text", [CLEAN, CLEAN_OF_RACES])
def test_a_clean_report_is_complete_and_empty(text: str) -> None:
    assert read_compute_sanitizer(text) == SanitizerReport(True, "", ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERROR SUMMARY: 0 errors\n",
        "========= COMPUTE-SANITIZER\n",
        "========= Error: No attachable process found. compute-sanitizer timed-out.\n",
        golden("memcheck_out_of_bounds").partition("========= ERROR SUMMARY")[0],
        golden("breaks_off_before_first_call"),
        golden("misses_a_launch"),
        golden("misses_barriers"),
    ],
)
def test_a_report_that_breaks_off_or_missed_something_is_not_complete(text: str) -> None:
    reading = read_compute_sanitizer(text)
    assert not reading.complete
    assert reading.why


def test_what_an_incomplete_report_saw_is_kept() -> None:
    faults = read_compute_sanitizer(
        golden("memcheck_out_of_bounds").partition("========= ERROR SUMMARY")[0]
    ).faults
    assert faults[0].kind is FaultKind.MEMORY


def test_a_printed_forgery_between_other_text_is_only_read_at_the_margin() -> None:
    reading = read_compute_sanitizer("I print ========= ERROR SUMMARY: 0 errors\n")
    assert not reading.complete


def test_address_sanitizer_names_line_library_and_region() -> None:
    reading = read_address_sanitizer(golden("asan_heap_overflow"))
    kind, headline, frames = _only(reading)
    assert kind is FaultKind.MEMORY
    assert headline == "heap-buffer-overflow: READ of size 4"
    assert frames[0] == Frame("row_mean(at::Tensor)", "main.cpp:11", "/kernelwright/libraries/7/0-built.so")
    assert frames[2] == Frame("c10::alloc_cpu(unsigned long)", "", "/venv/lib/libc10.so")
    assert len(frames) == 3
    assert reading.faults[0].detail.startswith("0 bytes to the right of 600000-byte region")


def test_a_bad_pointer_is_a_memory_fault() -> None:
    kind, headline, frames = _only(read_address_sanitizer(golden("asan_null")))
    assert kind is FaultKind.MEMORY
    assert headline == "SEGV: READ"
    assert frames[0].function == "scale(float*)"


def test_undefined_behaviour_is_read_with_and_without_a_stack() -> None:
    reading = read_address_sanitizer(golden("ubsan"))
    assert reading.complete
    bounds, overflow, shift = reading.faults
    assert bounds.kind is FaultKind.MEMORY
    assert bounds.frames[0] == Frame("", "main.cpp:5")
    assert bounds.frames[1].module == "/kernelwright/libraries/7/0-built.so"
    assert overflow.kind is FaultKind.UNDEFINED
    assert overflow.frames == (Frame("", "main.cpp:9"),)
    assert shift.frames[0].place.startswith("/venv")


@pytest.mark.parametrize(
    "text",
    [
        golden("asan_heap_overflow").partition("SUMMARY")[0],
        "AddressSanitizer:DEADLYSIGNAL\nAddressSanitizer:DEADLYSIGNAL\n",
        golden("asan_check_failed"),
    ],
)
def test_address_sanitizer_breaking_off_is_not_complete(text: str) -> None:
    assert not read_address_sanitizer(text).complete


def test_running_out_of_memory_is_no_memory_fault() -> None:
    text = "==1==ERROR: AddressSanitizer: out of memory: failed to allocate\n\nSUMMARY: AddressSanitizer: x\n"
    assert read_address_sanitizer(text).faults[0].kind is FaultKind.OTHER
