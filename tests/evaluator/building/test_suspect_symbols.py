"""A wrong answer that may be the lean headers' fault is judged again with torch's own."""

import textwrap

import pytest

from kernelwright.evaluator import Candidate, EvaluationConfig, Evaluator, Status, problem_from_source

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


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "status"), [(2, Status.PASSED), (4, Status.WRONG_VALUES)])
def test_a_wrong_answer_under_lean_headers_is_decided_by_torchs_own(shared_cache, factor, status):
    candidate = Candidate(source=TELLS_HEADERS_APART % factor, backend="cpp")
    with Evaluator(cache=shared_cache) as evaluator:
        evaluation = evaluator.evaluate(PROBLEM, candidate, EvaluationConfig(measure=False))
    assert evaluation.status is status, evaluation.detail
    assert [build.tier for build in evaluation.builds] == ["lean", "full"]
    assert f"WRONG_VALUES with lean headers, {status} with torch's own, which count" in evaluation.notes
