"""Candidates that took judges down: kept for the operator, and evaluated no more until he removes them."""

from __future__ import annotations

import json
from pathlib import Path

from kernelwright.agent.evaluation.evaluation_site import CandidateQuarantined, EvaluationRequest
from kernelwright.evaluator import sha256_text, write_whole


class Quarantine:
    """A folder of such candidates, one file each, by problem and candidate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def refuse_held(self, request: EvaluationRequest) -> None:
        """Refuse a candidate that is held; raises CandidateQuarantined."""
        if (path := self._path(request)).exists():
            raise CandidateQuarantined(f"not evaluated: it took judges down; remove {path} to try it again")

    def hold(self, request: EvaluationRequest, losses: list[str]) -> CandidateQuarantined:
        """Keep a candidate with the reasons for which judges were lost; return the error to raise."""
        path = self._path(request)
        told = {
            "problem": request.problem.id,
            "backend": request.candidate.backend,
            "losses": losses,
            "source": request.candidate.source,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(told, indent=2).encode())
        return CandidateQuarantined(
            f"not evaluated: {'; then '.join(losses)}; the candidate is kept in {path}"
        )

    def _path(self, request: EvaluationRequest) -> Path:
        key = sha256_text(f"{request.problem.sha}\0{request.candidate.sha}\0{request.candidate.backend}")
        return self._folder / f"{key[:32]}.json"
