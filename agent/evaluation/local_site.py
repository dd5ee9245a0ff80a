"""Evaluates on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.records.provenance import versions
from kernelwright.evaluator import (
    Concurrency,
    Evaluation,
    Evaluator,
    FullHeaderBuild,
    cpu_name,
    gpus,
)


class LocalSite:
    """An `Evaluator` of this process; see `EvaluationSite`. Usable from any thread."""

    def __init__(self, cache: Path | None, at_once: Concurrency) -> None:
        """`at_once` evaluations keep their referees warm."""
        self.at_once = at_once.count
        self.capacity = f"{at_once.count} at once on this machine: {at_once.limit}"
        self._evaluator = Evaluator(cache=cache, idle_referees=max(2, at_once.count))

    @property
    def machine(self) -> str:
        """This machine's processors, torch, and the cores that this process may use."""
        cores = len(os.sched_getaffinity(0))
        names = (cpu_name(), f"{cores} cores", *(gpu.name for gpu in gpus()))
        return ", ".join((*names, f"torch {versions().get('torch', 'unknown')}"))

    def builds_plainly(self, evaluation: Evaluation) -> FullHeaderBuild:
        return self._evaluator.build_with_full_headers(evaluation)

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        return self._evaluator.evaluate(
            request.problem, request.candidate, request.config, on_stage=hooks.on_stage, stop=hooks.stop
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._evaluator.close()
