"""What g++, nvcc, ptxas, the linker and Python say, and the part of it that matters."""

from __future__ import annotations

import pytest

from kernelwright.agent.prompting.diagnostics import (
    read_compiler_log,
    read_kernel_error,
    read_traceback,
    shortened,
    tail,
)

CODE = '''import torch
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void scale(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * y[i];
    y[i] = missing(i)
}
"""
built = load_inline("scale", cuda_sources=source, functions=["scale"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.scale(x)
'''

NVCC = """[1/2] /usr/local/cuda/bin/nvcc -c /tmp/build/scale/cuda.cu -o cuda.cuda.o
FAILED: cuda.cuda.o
/usr/include/c++/12/type_traits(71): warning #1444-D: something old
/tmp/build/scale/cuda.cu(7): error: identifier "factor" is undefined
      if (i < n) y[i] = factor * y[i];
                        ^

/tmp/build/scale/cuda.cu(8): error: identifier "missing" is undefined
      y[i] = missing(i)
             ^

/tmp/build/scale/cuda.cu(9): error: expected a ";"
  }
  ^

3 errors detected in the compilation of "/tmp/build/scale/cuda.cu".
ninja: build stopped: subcommand failed.
"""

GCC = """In file included from /usr/include/c++/12/bits/stl_algobase.h:71,
                 from main.cpp:1:
/usr/include/c++/12/bits/stl_algo.h:4820:18:   required from 'void std::sort(_RAIter, _RAIter)'
main.cpp:9:38:   required from here
/usr/include/c++/12/bits/predefined_ops.h:45:23: error: no match for 'operator<' (operands are 'S' and 'S')
   45 |       { return *__it1 < *__it2; }
      |                ~~~~~~~^~~~~~~~
/usr/include/c++/12/bits/stl_iterator.h:1246:5: note: candidate: 'template<class A> bool operator<(A, A)'
 1246 |     operator<(const A& __lhs,
      |     ^~~~~~~~
"""


def test_the_first_error_comes_with_the_lines_it_points_at() -> None:
    found = read_compiler_log(NVCC, CODE)
    assert found is not None
    assert found.message == 'identifier "factor" is undefined'
    assert found.place == "cuda.cu:7"
    assert [(line.number, line.marked) for line in found.source] == [
        (5, False),
        (6, False),
        (7, True),
        (8, False),
        (9, False),
    ]
    assert found.source[2].text.strip() == "if (i < n) y[i] = factor * y[i];"
    assert found.others == ('cuda.cu:8: identifier "missing" is undefined', 'cuda.cu:9: expected a ";"')
    assert found.more == 0


def test_gcc_shows_its_line_behind_a_number() -> None:
    log = "main.cpp:12:18: error: 'totl' was not declared in this scope; did you mean 'total'?\n"
    log += "   12 |     if (i < n) y[i] = factor * y[i];\n      |            ^~~~\n      |            total\n"
    found = read_compiler_log(log, CODE)
    assert found is not None
    assert [line.number for line in found.source if line.marked] == [7]


def test_an_error_in_a_header_names_the_line_that_needed_it() -> None:
    found = read_compiler_log(GCC, CODE)
    assert found is not None
    assert found.message.startswith("no match for 'operator<'")
    assert (found.place, found.notes) == ("predefined_ops.h:45", ("needed at main.cpp:9",))
    assert (found.source, found.quoted) == ((), "{ return *__it1 < *__it2; }")


def test_an_error_of_the_candidate_comes_before_those_in_headers() -> None:
    found = read_compiler_log(GCC + "main.cpp:3:1: error: 'x' does not name a type\n", CODE)
    assert found is not None
    assert found.place == "main.cpp:3"
    assert len(found.others) == 1


def test_ptxas_and_linker_errors_are_errors() -> None:
    too_much = "ptxas error   : Entry function 'big' uses too much shared data (0x13880 bytes, 0xc000 max)\n"
    found = read_compiler_log(too_much, CODE)
    assert found is not None
    assert (found.place, found.message[:14]) == ("ptxas", "Entry function")
    unlinked = "/usr/bin/ld: /tmp/x/main.o: in function `main':\n"
    unlinked += "main.cpp:(.text+0xa): undefined reference to `f(int)'\n"
    found = read_compiler_log(unlinked + "collect2: error: ld returned 1 exit status\n", CODE)
    assert found is not None
    assert (found.place, found.message, found.others) == ("linker", "undefined reference to `f(int)'", ())


def test_a_log_without_errors_has_no_diagnosis() -> None:
    assert read_compiler_log("", CODE) is None
    assert read_compiler_log("the build did not finish in 300 s", CODE) is None
    assert read_compiler_log("main.cpp:7:1: warning: error-prone\n", CODE) is None


def test_a_traceback_points_at_the_candidates_own_line() -> None:
    text = """Traceback (most recent call last):
  File "/sandbox/entry.py", line 90, in call
    return model(*arguments)
  File "/tmp/job/candidate.py", line 16, in forward
    return built.scale(x)
  File "/usr/lib/python3/site-packages/torch/ops.py", line 3, in scale
    raise RuntimeError
RuntimeError: two equal fp32 inputs
Exception raised from /tmp/job/x.cu
"""
    found = read_traceback(text, CODE)
    assert found is not None
    assert found.message == "RuntimeError: two equal fp32 inputs Exception raised from x.cu"
    assert [line.number for line in found.source if line.marked] == [16]
    assert read_traceback("Segmentation fault", CODE) is None


def test_texts_are_cut_to_size_and_paths_to_names() -> None:
    assert shortened("a  b\n/x/y/z.cu: bad") == "a b z.cu: bad"
    assert shortened("x" * 1000, 10) == "x" * 7 + "..."
    assert shortened("1/2/3 of n/m") == "1/2/3 of n/m"
    assert tail("a\nb\nc\n", lines=2, characters=100) == "b\nc"
    assert tail("abc", lines=2, characters=2) == "bc"


def test_enormous_logs_are_read_quickly() -> None:
    log = "x.cu(1): error: " + "a" * 200_000 + "\n" + " " * 200_000 + "^\n" + NVCC * 2000
    found = read_compiler_log(log, CODE)
    assert found is not None
    assert len(found.message) <= 400


KERNELS = """import triton
import triton.language as tl

@triton.jit
def scale(x, n, B: tl.constexpr):
    i = tl.arange(0, 1000)
    tl.store(x + i, i)
"""


def test_triton_points_at_the_line_it_could_not_compile():
    said = (
        "CompilationError: at 2:8:\ndef scale(x, n, B: tl.constexpr):\n"
        "    i = tl.arange(0, 1000)\n        ^\n"
        "arange's range must be a power of 2"
    )
    found = read_kernel_error(said, KERNELS)
    assert found.message == "arange's range must be a power of 2"
    assert [(line.number, line.text) for line in found.source if line.marked] == [
        (6, "    i = tl.arange(0, 1000)")
    ]


@pytest.mark.parametrize("place", ["/tmp/candidate.py:6", "/tmp/candidate.py:6:13"])
def test_compilers_that_name_the_candidates_line_are_followed(place):
    said = f"DSLUserCodeError: error[UNSUP]: Early exit is not allowed.\n  --> {place}\n   |\n"
    found = read_kernel_error(said, KERNELS)
    assert found.message == "error[UNSUP]: Early exit is not allowed."
    assert [line.number for line in found.source if line.marked] == [6]


@pytest.mark.parametrize(
    "said", ["", "ValueError: no", "at 2:8:", "at 2:8:\n^", " --> /usr/lib/x.py:3", " --> candidate.py:999"]
)
def test_other_words_are_not_taken_for_a_kernel_languages(said):
    found = read_kernel_error(said, KERNELS)
    assert found is None or not found.source
