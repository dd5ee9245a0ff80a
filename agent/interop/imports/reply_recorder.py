"""Makes a run of replies made elsewhere: each becomes an attempt, with all facts of its file.

Such a run asks no model; resuming it evaluates the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kernelwright.agent.archive import Archive, ExtractedReply, RunLog, begin_run
from kernelwright.agent.extraction.extract import Extraction, ExtractionOutcome, Rule, extract
from kernelwright.agent.extraction.python_modules import read_module
from kernelwright.agent.interop.imports.imported_reply import ImportedReply, UnreadableImport
from kernelwright.agent.records.attempt_log import AttemptKey
from kernelwright.agent.records.messages import Completion, CompletionRequest
from kernelwright.agent.records.provenance import now
from kernelwright.agent.runner import ModelChoice, Plan
from kernelwright.agent.strategies import Imported
from kernelwright.evaluator import BACKENDS, EvaluationConfig, Problem, guess_backend

UNKNOWN: Final = "unknown"

DEFAULT_BACKEND: Final = "cuda"
"""The backend of a reply that names none and uses the words of none."""

DOUBTFUL: Final = 0.34
"""Share of common words at which two names may mean one problem."""

_NOISE: Final = frozenset({"a", "and", "by", "dimension", "for", "of", "op", "py", "the", "with"})


@dataclass(frozen=True, slots=True)
class ProblemMatch:
    """The problem that a name means."""

    problem: str
    """Problem id."""
    how: str
    """The common part: `name`, `number` or `words`; `asked` where the user named the problem."""

    @property
    def certain(self) -> bool:
        """True when the names agree; numbers and words differ between collections."""
        return self.how == "name"


@dataclass(frozen=True, slots=True)
class ReplyDefaults:
    """Facts about replies whose files do not state them."""

    problems: Mapping[str, Problem]
    """By id; a single one is the problem of every reply."""
    backend: str | None = None
    model: str | None = None
    license: str | None = None
    """Licence of the replies."""
    is_numbered_alike: bool = True
    """True when a number means the same problem in the files and among these."""
    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    """The policy of their evaluation."""
    plain_build: bool = True
    """A kernel must build with torch's own headers to be saved."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply, its extraction, and its attempt."""

    reply: ImportedReply
    match: ProblemMatch | None
    extraction: Extraction
    key: AttemptKey


def record_replies(
    archive: Archive, replies: Sequence[ImportedReply], source: ReplyDefaults
) -> tuple[RunLog, list[RecordedReply]]:
    """Begin a run and record every reply in it; the caller closes the log.

    Raises:
        UnreadableImport: there is no reply, and no run was begun.
        OSError: the archive cannot be written.
    """
    if not replies:
        raise UnreadableImport("there is no reply to import")
    labelled = _label(replies, source)
    used = {entry.match.problem: source.problems[entry.match.problem] for entry in labelled if entry.match}
    plan = Plan(
        problems=tuple(used) or (UNKNOWN,),
        backends=tuple(dict.fromkeys(entry.key.backend for entry in labelled)),
        models=tuple(ModelChoice(name=name) for name in dict.fromkeys(entry.key.model for entry in labelled)),
        strategy=Imported(samples=1 + max(entry.key.sample for entry in labelled)),
        config=source.config,
        plain_build=source.plain_build,
    )
    log = begin_run(archive, plan.model_dump_json(), list(used.values()))
    taken = [replace(entry, key=entry.key.model_copy(update={"run": log.run})) for entry in labelled]
    for entry in taken:
        log.record_completion(entry.key, _answer(entry, source))
    return log, taken


def _label(replies: Sequence[ImportedReply], source: ReplyDefaults) -> list[RecordedReply]:
    counts: Counter[AttemptKey] = Counter()
    labelled = []
    for reply in replies:
        match = _match(reply, source)
        extraction = _extract(reply)
        first = AttemptKey(
            run="",
            problem=match.problem if match else reply.problem or UNKNOWN,
            backend=_backend(reply, extraction, source),
            model=reply.model or source.model or UNKNOWN,
            strategy=Imported().name,
            sample=0,
        )
        key = first.model_copy(update={"sample": counts[first]})
        counts[first] += 1
        labelled.append(RecordedReply(reply, match, extraction, key))
    return labelled


def _match(reply: ImportedReply, source: ReplyDefaults) -> ProblemMatch | None:
    name, alike = reply.problem, source.is_numbered_alike
    found = match_problem(name, source.problems, by_number=alike) if name else None
    if len(source.problems) > 1 or (found and found.certain):
        return found
    return next((ProblemMatch(problem, how="asked") for problem in source.problems), None)


def _extract(reply: ImportedReply) -> Extraction:
    if not reply.is_module:
        return extract(reply.text, finish_reason=reply.finish_reason or None, reasoning=reply.reasoning)
    if read_module(reply.text).is_model:
        return Extraction(outcome=ExtractionOutcome.CODE, code=reply.text, rule=Rule.UNFENCED)
    return Extraction(outcome=ExtractionOutcome.NO_CODE, rule=Rule.NO_MODEL_NEW)


def _backend(reply: ImportedReply, extraction: Extraction, source: ReplyDefaults) -> str:
    if reply.backend in BACKENDS:
        return str(reply.backend)
    return source.backend or guess_backend(extraction.code or reply.text) or DEFAULT_BACKEND


def _answer(entry: RecordedReply, source: ReplyDefaults) -> ExtractedReply:
    key, reply = entry.key, entry.reply
    request = CompletionRequest(
        model=key.model, messages=reply.messages, problem=key.problem, backend=key.backend, sample=key.sample
    )
    completion = Completion(
        provider=key.strategy,
        model=reply.model or key.model,
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason or UNKNOWN,
        usage=reply.usage,
        seconds=0.0,
        response_id=reply.response_id,
        completed_at=reply.generated_at or now(),
    )
    return ExtractedReply(
        request=request,
        completion=completion,
        extraction=entry.extraction,
        license=source.license,
        origin=reply.origin,
    )


def match_problem(name: str, known: Iterable[str], *, by_number: bool = True) -> ProblemMatch | None:
    """The known problem a name means; None when none is near, or two are equally near.

    `by_number` says that the known problems are numbered as those the name is from.
    """
    ids = list(known)
    same = [problem for problem in ids if name == problem] or [
        problem for problem in ids if _bare(name) and _bare(name) == _bare(problem)
    ]
    if len(same) == 1:
        return ProblemMatch(same[0], how="name")
    numbered = [problem for problem in ids if by_number and _has_number(problem, name)]
    if len(numbered) == 1:
        return ProblemMatch(numbered[0], how="number")
    words = _words(name)
    near = sorted(((_overlap(words, _words(problem)), problem) for problem in ids), reverse=True)
    if not near or near[0][0] < DOUBTFUL or (len(near) > 1 and near[0][0] == near[1][0]):
        return None
    return ProblemMatch(near[0][1], how="words")


def _has_number(problem: str, name: str) -> bool:
    level, _, number = name.partition("/")
    folder, _, stem = problem.rpartition("/")
    return number.isdecimal() and folder == level and stem.partition("_")[0].lstrip("0") == number.lstrip("0")


def _bare(name: str) -> str:
    stem = name.removesuffix(".py").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"^\d+[_-]", "", stem)).strip("_")


def _words(name: str) -> frozenset[str]:
    return frozenset(_bare(name).split("_")) - _NOISE - {""}


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
