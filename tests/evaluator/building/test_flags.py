from __future__ import annotations

import pytest

from kernelwright.evaluator.building.build_request import BuildRequest, InvalidRequest
from kernelwright.evaluator.building.flags import screen_flags

HONEST_CXX = [
    "-O3",
    "-Ofast",
    "-march=native",
    "-mavx512f",
    "-mfma",
    "-ffast-math",
    "-fno-math-errno",
    "-funroll-loops",
    "-fopenmp",
    "-std=c++17",
    "-Wall",
    "-Wno-unused-variable",
    "-DNDEBUG",
    "-DBLOCK=32",
    '-DTEXT="a b"',
    "-UNDEBUG",
    "-g",
    "-w",
    "-fPIC",
    "-pthread",
    "-ftree-vectorize",
    "-fvisibility=hidden",
    "-flto",
    "-faligned-new",
    "-fopt-info-vec",
    "-fno-jump-tables",
    "-fira-region=all",
    "--std=c++17",
]
HONEST_CUDA = [
    "-O3",
    "--use_fast_math",
    "-use_fast_math",
    "-lineinfo",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "--extended-lambda",
    "-std=c++17",
    "-Xptxas=-O3",
    "-Xptxas=-v,-dlcm=ca",
    "--ptxas-options=-v",
    "-Xcompiler=-fPIC,-O3",
    "-maxrregcount=64",
    "-U__CUDA_NO_HALF_OPERATORS__",
    "--ftz=true",
    "-diag-suppress=177",
]
MOOT_CUDA = [
    "-Xfatbin -compress-all",
    "-Xfatbin=-compress-all",
    "--fatbin-options=-compress-all",
    "-allow-unsupported-compiler",
    "--allow-unsupported-compiler",
    "-src-in-ptx",
    "--source-in-ptx",
    "-cudart shared",
    "--compress-mode=none",
    "-forward-unknown-to-host-compiler",
    "-m64",
    "--verbose",
    "--threads 8",
]
HOSTILE = [
    "@/etc/passwd",
    "-fplugin=/tmp/evil.so",
    "-B/tmp/tools",
    "-wrapper sh,-c,id",
    "-specs=/tmp/specs",
    "-o/tmp/elsewhere",
    "-x c",
    "-include /etc/passwd",
    "-imacros/etc/passwd",
    "-Wl,--dynamic-linker=/tmp/x",
    "-Wl,-T,/tmp/script",
    "-Wa,-a=/tmp/x",
    "-Wp,-MD,/tmp/x",
    "-fuse-ld=/tmp/ld",
    "-fmodules-ts -fmodule-mapper=|id",
    "-fdump-tree-all=/tmp/x",
    "-fprofile-use=/tmp/x",
    "-ccbin /tmp/g++",
    "--compiler-bindir=/tmp",
    "-I../../elsewhere",
    "main.cpp",
    "/etc/passwd",
    "-Xlinker -rpath",
    "-save-temps",
    "-MF/tmp/x",
    "-l:evil.so",
    "-levil",
]


def _request(**flags: list[str]) -> BuildRequest:
    return BuildRequest(name="x", **{name: tuple(value) for name, value in flags.items()})


@pytest.mark.parametrize("flag", HONEST_CXX)
def test_an_honest_compiler_flag_passes(flag: str) -> None:
    assert screen_flags(_request(extra_cflags=[flag])).cxx


@pytest.mark.parametrize("flag", HONEST_CUDA)
def test_an_honest_nvcc_flag_passes(flag: str) -> None:
    assert screen_flags(_request(extra_cuda_cflags=[flag])).cuda == [
        flag.replace("--ptxas-options", "-Xptxas")
    ]


@pytest.mark.parametrize("flag", MOOT_CUDA)
def test_a_flag_that_changes_no_kernel_is_dropped_with_a_note(flag: str) -> None:
    flags = screen_flags(_request(extra_cuda_cflags=[flag, "-O3"]))
    assert flags.cuda == ["-O3"]
    assert len(flags.notes) == 1
    assert flags.notes[0].endswith("ignored")


@pytest.mark.parametrize("field", ["extra_cflags", "extra_cuda_cflags", "extra_ldflags"])
@pytest.mark.parametrize("flag", HOSTILE)
def test_a_hostile_flag_is_refused_by_name(flag: str, field: str) -> None:
    with pytest.raises(InvalidRequest, match=r"not allowed|leaves the build folder"):
        screen_flags(_request(**{field: [flag]}))


def test_what_reaches_a_shell_cannot_carry_shell_syntax() -> None:
    for flag in ("-DX=`id`", "-DX=$(id)", "-DX=a;id", '-DX=a"b', "-Xcompiler=-DX=`id`"):
        with pytest.raises(InvalidRequest):
            screen_flags(_request(extra_cuda_cflags=[f"'{flag}'"]))


def test_empty_strings_are_dropped() -> None:
    flags = screen_flags(_request(extra_cflags=["", " "], extra_ldflags=[""]))
    assert (flags.cxx, flags.link) == ([], [])


def test_one_entry_may_hold_several_flags() -> None:
    assert screen_flags(_request(extra_cflags=["-O3 -march=native"])).cxx == ["-O3", "-march=native"]


def test_an_architecture_is_ignored_with_a_note_but_its_variant_is_kept() -> None:
    flags = screen_flags(_request(extra_cuda_cflags=["-O3", "-gencode", "arch=compute_90a,code=sm_90a"]))
    assert flags.cuda == ["-O3"]
    assert flags.architecture_suffix == "a"
    assert "ignored" in flags.notes[0]


def test_toolkit_folders_are_ignored_with_a_note() -> None:
    flags = screen_flags(
        _request(
            extra_cflags=["-I/usr/local/cuda/include"], extra_ldflags=["-L/usr/local/cuda/lib64", "-lcublas"]
        )
    )
    assert (flags.cxx, flags.link, len(flags.notes)) == ([], ["-lcublas"], 2)


def test_a_library_among_nvcc_flags_goes_to_the_linker() -> None:
    flags = screen_flags(_request(extra_cuda_cflags=["-lcublas"]))
    assert (flags.cuda, flags.link) == ([], ["-lcublas"])


@pytest.mark.parametrize("field", ["extra_cflags", "extra_cuda_cflags", "extra_ldflags"])
@pytest.mark.parametrize(
    "flag", ["-DX=a\0b", "-DX=\x1b[2J", "'-DX=a\nb'", "-DX=" + "a" * 140_000, "'" * 9_001]
)
def test_a_flag_no_command_line_can_hold_is_refused_by_name_cut_short(flag: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        screen_flags(_request(**{field: ["-O3", flag]}))
    assert ascii(flag)[1:4] in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_flags_are_bounded_together() -> None:
    with pytest.raises(InvalidRequest, match="more than 32000 characters; the longest is '-DX=aaa"):
        screen_flags(_request(extra_cflags=["-O3", *["-DX=" + "a" * 3000] * 11]))


def test_notes_are_bounded() -> None:
    notes = screen_flags(_request(extra_ldflags=["-v " * 1000, "-L/" + "x" * 3000])).notes
    assert len(notes) == 16
    assert all(len(note) < 300 for note in notes)


def test_flags_of_several_lines_are_split_like_others() -> None:
    assert screen_flags(_request(extra_cflags=["-O3\n\t-march=native"])).cxx == ["-O3", "-march=native"]


@pytest.mark.parametrize("folder", ["$(id)", "`id`", "a;id", "a|b", "a&b"])
def test_a_folder_cannot_carry_shell_syntax(folder: str) -> None:
    with pytest.raises(InvalidRequest):
        screen_flags(_request(extra_cuda_cflags=[f"'-I{folder}'"]))
