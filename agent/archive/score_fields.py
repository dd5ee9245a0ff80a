"""The fields of an evaluation that its log line holds."""

from __future__ import annotations

from kernelwright.agent.archive.policy import DETAIL_CHARACTERS
from kernelwright.agent.records.attempt_log import Score
from kernelwright.evaluator import Evaluation


def score(evaluation: Evaluation) -> Score:
    """Select the fields that views need."""
    measured, limits = evaluation.measurement, evaluation.plausibility
    return Score(
        status=evaluation.status,
        stage=evaluation.stage,
        detail=evaluation.detail[:DETAIL_CHARACTERS],
        problem_sha=evaluation.problem_sha,
        candidate_sha=evaluation.candidate_sha,
        shapes=evaluation.config.shapes,
        dtype=evaluation.config.dtype,
        math=evaluation.config.math,
        passes=evaluation.config.passes,
        hardware=evaluation.environment.device_name if evaluation.environment else None,
        speedup=evaluation.speedup,
        low=measured.interval.low if measured else None,
        high=measured.interval.high if measured else None,
        against=measured.against if measured else None,
        candidate_ms=measured.candidate.median_ms if measured else None,
        track=evaluation.attribution.track if evaluation.attribution else None,
        speed_of_light=limits.speed_of_light if limits else None,
        sanitized=evaluation.sanitization.ran if evaluation.sanitization else False,
        contended=measured.contended if measured else False,
        flaws=evaluation.problem_flaws,
        fatal=tuple(dict.fromkeys(finding.rule for finding in evaluation.findings if finding.fatal)),
        seconds=sum(evaluation.stage_seconds.values()),
    )
