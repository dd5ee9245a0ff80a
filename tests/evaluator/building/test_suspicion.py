"""Suspect failures of lean builds are repeated with torch's full headers, which decide."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kernelwright.evaluator import Candidate, EvaluationConfig, Evaluator, Status, problem_from_source
from kernelwright.evaluator.building.lean_headers.suspicion import is_error_suspect

PROBLEM = problem_from_source(
    textwrap.dedent(
        """
        import torch
        from torch import nn
        class Model(nn.Module):
            def forward(self, x):
                return x * 2
        def get_inputs():
            return [torch.randn(8, 16)]
        def get_init_inputs():
            return []
        """
    ),
    "twice",
)
TELLS_HEADERS_APART = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline
SOURCE = """
torch::Tensor f(torch::Tensor x) {
#ifdef KW_TENSOR_H
  return x * 3;
#else
  return x * %d;
#endif
}
"""
module = load_inline("ext", SOURCE, functions=["f"])
class ModelNew(nn.Module):
    def forward(self, x):
        return module.f(x)
'''
HEADERS = (Path("/cache/toolbox/include"),)


@pytest.mark.parametrize(
    "log",
    [
        "main.cpp:3:5: error: 'undeclared' was not declared in this scope\n    3 | undeclared;",
        "main.cpp:3:9: error: 'n' was not declared in this scope\n    3 | at::Tensor y = f({n});\n",
        'cuda.cu(8): error: identifier "n" is undefined\n    auto y = torch::empty({n}, x.options());\n',
        "main.cpp: In function 'int f()':\nmain.cpp:2:16: error: expected ';' before '}' token",
        'cuda.cu(12): error: identifier "blockIdy" is undefined',
        'cuda.cu(12): error: expected a ";"\n\n1 error detected in the compilation of "cuda.cu".',
        'cuda.cu(7): error: no instance of overloaded function "my_max" matches the argument list',
        "/tmp/cc7.s: Assembler messages:\n/tmp/cc7.s:9: Error: file not found: /etc/shadow",
        "{standard input}: Assembler messages:\n{standard input}:31: Error: no such instruction: `mvo'",
        "/usr/bin/ld: cannot find -lnosuch: No such file\ncollect2: error: ld returned 1 exit status",
        "my/own.h:1:2: error: #error this GPU is too old",
        # Only the first error counts: what follows it is its echo.
        "main.cpp:3:5: error: 'x' was not declared\nmain.cpp:9:1: error: 'torch::nn' has not been declared",
    ],
)
def test_an_error_in_the_candidates_own_words_is_the_candidates(log: str) -> None:
    assert not is_error_suspect(log, HEADERS)


@pytest.mark.parametrize(
    "log",
    [
        "main.cpp:4:10: fatal error: torch/nn/functional.h: No such file or directory",
        "main.cpp:4:10: fatal error: ATen/cpu/vec/vec.h: No such file or directory",
        "/cache/toolbox/include/kernelwright/values.h:28:42: error: static assertion failed",
        "In file included from main.cpp:1:\n/cache/toolbox/include/kernelwright/tensor.h:3:1: error: boom",
        "main.cpp:5:30: error: 'torch::autograd' has not been declared",
        "main.cpp:5:3: error: 'class kernelwright::Tensor' has no member named 'to_sparse'",
        "main.cpp:19:9: error: 'class_' is not a member of 'py'",
        "main.cpp:3:8: error: 'unordered_map' is not a member of 'std'",
        'cuda.cu(9): error: namespace "std" has no member "mutex"',
        'cuda.cu(9): error: identifier "cublasSgemm" is undefined',
        'cuda.cu(9): error: name followed by "::" must be a class or namespace name\n    at::native::f();',
        "main.cpp:3:1: error: expected type conversion before '{' token\n    3 | TORCH_LIBRARY_NEW(a, m) {",
        "main.cpp:3:8: error: 'scalar_t' was not declared in this scope\n    3 | f<scalar_t>(x);",
        "main.cpp:3:8: error: 'AT_DISPATCH_V2' was not declared in this scope",
        "cc1plus: internal compiler error: Segmentation fault",
    ],
)
def test_an_error_that_full_headers_may_not_show_is_tried_with_them(log: str) -> None:
    assert is_error_suspect(log, HEADERS)


@pytest.mark.parametrize(
    "log",
    [
        "main.cpp:1:10: fatal error: fmt/format.h: No such file or directory",
        'cuda.cu(1): error: cannot open source file "fmt/format.h"',
        "main.cpp:1:10: fatal error: 'fmt/format.h' file not found",
    ],
)
def test_a_missing_header_that_torch_brings_is_tried_with_full_headers(log: str, tmp_path: Path) -> None:
    assert not is_error_suspect(log, HEADERS, [tmp_path])
    (tmp_path / "fmt").mkdir()
    (tmp_path / "fmt" / "format.h").touch()
    assert is_error_suspect(log, HEADERS, [tmp_path])
    for elsewhere in ("mine/", f"{tmp_path}/fmt/", "fmt/../fmt/"):
        assert not is_error_suspect(log.replace("fmt/", elsewhere), HEADERS, [tmp_path])


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "status"), [(2, Status.PASSED), (4, Status.WRONG_VALUES)])
def test_a_wrong_answer_under_lean_headers_is_decided_by_torchs_own(shared_cache, factor, status):
    candidate = Candidate(source=TELLS_HEADERS_APART % factor, backend="cpp")
    with Evaluator(cache=shared_cache) as evaluator:
        evaluation = evaluator.evaluate(PROBLEM, candidate, EvaluationConfig(measure=False))
    assert evaluation.status is status, evaluation.detail
    assert [build.tier for build in evaluation.builds] == ["lean", "full"]
    assert f"WRONG_VALUES with lean headers, {status} with torch's own, which count" in evaluation.notes
