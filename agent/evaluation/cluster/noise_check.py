"""Times a program against itself (A/A): a device on which the two differ is too noisy to score on."""

from __future__ import annotations

from kernelwright.agent.evaluation.cluster.cluster_records import JudgeOrder, NoiseReading
from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest, EvaluationSite
from kernelwright.evaluator import Candidate, EvaluationConfig, EvaluatorError, Sanitize, problem_from_source

_SOURCE = '''"""Row sums of a logistic function."""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum(1)


def get_inputs():
    return [torch.randn({rows}, 1024)]


def get_init_inputs():
    return []
'''
_ROWS = {"cuda": 8192, "cpu": 256}


def measure_noise(site: EvaluationSite, order: JudgeOrder) -> NoiseReading:
    """Evaluate a reference against itself with the fewest trials; work of other callers goes on meanwhile."""
    problem = problem_from_source(_SOURCE.format(rows=_ROWS[order.kind]), "check/noise")
    source = problem.source.replace("class Model(", "class ModelNew(")
    candidate = Candidate(source=source, backend="cpp" if order.kind == "cpu" else "cuda")
    asked = order.config
    config = EvaluationConfig(
        device=asked.device,
        sandbox=asked.sandbox,
        threads=asked.threads,
        baselines=("eager",),
        trials=1,
        sanitize=Sanitize.OFF,
    )
    try:
        found = site.evaluate(EvaluationRequest(problem, candidate, config), EvaluationHooks())
    except EvaluatorError as error:
        return NoiseReading(ratio=None, why=str(error))
    if not found.speedup:
        return NoiseReading(ratio=None, why=f"{found.status}: {found.detail}")
    return NoiseReading(ratio=max(found.speedup, 1 / found.speedup))
