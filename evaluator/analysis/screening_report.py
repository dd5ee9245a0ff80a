"""A report on a saved kernel before it is used: what its source may do, who wrote it, what its scores say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kernelwright.evaluator.analysis.policy import MAX_FINDINGS, SCREENING_CHARACTERS
from kernelwright.evaluator.analysis.static_checks import screen
from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.evaluation import Evaluation, Finding
from kernelwright.evaluator.schema.record import Record
from kernelwright.evaluator.schema.visible_text import one_line

_REACHES: Final = {
    "calls libraries by name": r"\bdlm?open\b|\bdlsym\b|\bctypes\b|\bcffi\b",
    "opens files": r"\bopen\s*\(|\bpathlib\b|\bshutil\b|\bfopen\b|/proc/",
    "reads the environment": r"\bos\.environ\b|\bgetenv\b",
    "makes code as it runs": r"(?<![.\w])(eval|exec)\s*\(|\b(marshal|pickle|b64decode|__import__)\b",
    "starts processes or changes their memory": r"\bfork\b|\bexecv|\bptrace\b|\bmprotect\b|\bsyscall\b",
}
_PATTERNS: Final = tuple((message, re.compile(pattern)) for message, pattern in _REACHES.items())


class KernelScreening(Record):
    """A saved kernel as foreign code. It is no proof: what a screening looks for can be written otherwise."""

    sha: str
    """Content address of backend and source."""
    is_scored: bool
    """The source has the hash that was scored."""
    findings: tuple[Finding, ...]
    """Lines that reach further than arithmetic on tensors."""
    origin: str
    """Its author and licence, as far as they were recorded."""
    scores: tuple[str, ...]
    """One line for each: result, track, baseline, device, time, policy, sandbox and sanitizers."""

    def __str__(self) -> str:
        lines = [
            f"kernel     {self.sha}{'' if self.is_scored else ', NOT the source that was scored'}",
            f"origin     {self.origin}",
            *(f"scored     {score}" for score in self.scores or ("never",)),
            *(f"line {finding.line or '-':<6}{finding.message}" for finding in self.findings),
        ]
        return "\n".join(lines if self.findings else [*lines, "findings   none"])


def screen_source(
    candidate: Candidate, scored_sha: str, scores: Sequence[Evaluation], origin: Mapping[str, object]
) -> KernelScreening:
    """Screen a saved kernel; `origin` is its recorded provenance, text that others wrote."""
    findings = [*screen(candidate), *islice(_reaches(candidate.source), MAX_FINDINGS)]
    named = [f"{name} {value}" for name, value in origin.items() if value not in (None, "")]
    return KernelScreening(
        sha=candidate.sha,
        is_scored=candidate.sha == scored_sha,
        findings=tuple(sorted(findings, key=lambda finding: finding.line or 0)),
        origin=_one_line(", ".join(named)) or "unknown",
        scores=tuple(_one_line(", ".join(_facts(score))) for score in scores),
    )


def _reaches(source: str) -> Iterator[Finding]:
    for number, line in enumerate(source.splitlines(), 1):
        for message, expression in _PATTERNS:
            if expression.search(line):
                yield Finding(rule="reach", line=number, message=message)


def _facts(score: Evaluation) -> Iterator[str]:
    config, measured, environment = score.config, score.measurement, score.environment
    yield score.status.value
    if measured is not None:
        low, high = measured.interval.low, measured.interval.high
        contended = ", contended" if measured.contended else ""
        yield f"{measured.speedup:.2f}x ({low:.2f} to {high:.2f}) against {measured.against}{contended}"
    yield f"track {score.attribution.track}" if score.attribution else "track unknown"
    if environment is not None:
        yield f"on {environment.device_name} in sandbox {environment.sandbox.tier}"
    yield f"{score.evaluated_at or 'at an unknown time'} by {score.evaluator_version or 'an unknown version'}"
    yield f"shapes {config.shapes or 'own'}, dtype {config.dtype}, math {config.math}, {config.passes}"
    sanitized = score.sanitization
    yield f"sanitized by {' and '.join(sanitized.tools)}" if sanitized and sanitized.ran else "not sanitized"


def _one_line(text: str) -> str:
    """Text of others on one line of a terminal, bounded."""
    return one_line(text)[:SCREENING_CHARACTERS]
