"""Layout of a workspace: `runs/` (logs, not tracked) and `generated/` (saved kernels, tracked in git).

A saved kernel is a folder named by its hash, `generated/<backend>/<problem>/<kernel>/`, with `kernel.py` and
`score.json`: whole evaluations and the kernel's provenance. Equal contents are equal bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from typing import Final, TypeAlias

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.archive.private_lock import locked
from kernelwright.agent.records.score import Score
from kernelwright.agent.records.score_policy import ScorePolicy, fit_speedup, policy_of
from kernelwright.agent.records.strict_json import plain
from kernelwright.evaluator import (
    Candidate,
    Evaluation,
    KernelScreening,
    Record,
    Stage,
    Status,
    read_regular,
    screen_source,
    write_whole,
)

SCHEMA_VERSION: Final = 1
ID_DIGITS: Final = 12
NAMED: Final = 5
"""Known kernels that the message about an unknown one lists."""

LOCK_WAIT_S: Final = 60.0
"""Longest wait for other processes that save kernels; one takes milliseconds."""

_SOURCE: Final = "kernel.py"
_SCORE: Final = "score.json"
_LOCK: Final = ".lock"


_Scores: TypeAlias = tuple[Evaluation, ...]


class UnknownKernel(ArchiveError):
    """No saved kernel has that name; the message lists close ones."""


class Provenance(Record):
    """Provenance of a kernel; None where it is unknown."""

    run: str | None = None
    attempt: str | None = None
    provider: str | None = None
    model: str | None = None
    """The model as asked for."""
    answered_by: str | None = None
    """The model the endpoint reports."""
    strategy: str | None = None
    sample: int | None = None
    turn: int | None = None
    completed_at: str | None = None
    license: str | None = None
    """Licence of the kernel's source, as far as it is known."""
    origin: str = ""
    """Origin of a reply that no model gave."""


class KernelRecord(Record):
    """`score.json` of a saved kernel."""

    schema_version: int = SCHEMA_VERSION
    sha: str
    """Content address of backend and source."""
    backend: str
    problem: str
    """Problem id."""
    problem_sha: str
    provenance: Provenance = Provenance()
    builds_plainly: bool | None = None
    """True when it also builds with torch's own headers; None when that was not checked."""
    scores: tuple[Evaluation, ...]
    """The latest of each policy; never empty."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A saved kernel."""

    id: str
    folder: Path
    source: str
    record: KernelRecord

    @property
    def score(self) -> Evaluation:
        """The score to show: of those against most baselines the latest."""
        scores = self.record.scores
        return max(scores, key=lambda score: (len(policy_of(score).baselines), score.evaluated_at))

    def screening(self) -> KernelScreening:
        """A report on what it is before it is used: foreign code."""
        origin = self.record.provenance.model_dump(mode="json")
        candidate = Candidate(source=self.source, backend=self.record.backend)
        return screen_source(candidate, self.record.sha, self.record.scores, origin)


class Workspace:
    """The folders below one root. Whatever writes raises OSError where they cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.generated = root / "generated"

    def archive(self, on_damage: Callable[[str], None] | None = None) -> Archive:
        """Return the archive of runs; with `on_damage`, damaged lines are reported to it and skipped."""
        return Archive(self.runs, on_damage)

    def keep(
        self,
        source: str,
        evaluation: Evaluation,
        provenance: Provenance,
        *,
        builds_plainly: bool | None = None,
    ) -> Kernel:
        """Save a kernel that passed, or add a score to a saved one.

        Of two scores under one policy the later stays, not the luckier one; other policies' scores stay too.
        Raises ValueError if it did not pass, or the evaluation is of other source.
        """
        sha = Candidate(source=source, backend=evaluation.backend).sha
        if evaluation.status is not Status.PASSED or evaluation.candidate_sha != sha:
            raise ValueError(f"only what passed is saved; {evaluation.status} of {evaluation.candidate_sha}")
        self.generated.mkdir(parents=True, exist_ok=True)
        with self._locked():
            folder, saved = self._saved(evaluation)
            record = KernelRecord(
                sha=sha,
                backend=evaluation.backend,
                problem=evaluation.problem,
                problem_sha=evaluation.problem_sha,
                provenance=saved.provenance if saved else provenance,
                builds_plainly=saved.builds_plainly if saved and builds_plainly is None else builds_plainly,
                scores=_merge((*saved.scores, evaluation) if saved else (evaluation,)),
            )
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / _SOURCE, source)
            _write(folder / _SCORE, _json(record))
        return Kernel(id=folder.name, folder=folder, source=source, record=record)

    def replace_scores(self, kernel: Kernel, evaluation: Evaluation) -> None:
        """Put a score in the place of those of the same task on the same hardware, whatever their policy."""
        self._change(kernel, lambda scores: (*_of_other_tasks(scores, evaluation), evaluation))

    def drop_scores(self, kernel: Kernel, evaluation: Evaluation) -> None:
        """Remove the scores of the same task on the same hardware, whatever their policy.

        What fails for good loses all scores, and a kernel without any is removed.
        """
        self._change(kernel, lambda scores: _of_other_tasks(scores, evaluation))

    def is_saved(self, evaluation: Evaluation) -> bool:
        """Return whether the evaluated candidate is saved, undamaged, with a score of the same policy."""
        saved = self._saved(evaluation)[1]
        return saved is not None and len(_of_other_policies(saved.scores, evaluation)) < len(saved.scores)

    def withdraw(self, evaluation: Evaluation) -> None:
        """Remove the candidate's score under the evaluation's policy; all, where it fails for good."""
        if not self.generated.is_dir():
            return
        with self._locked():
            folder, saved = self._saved(evaluation)
            if saved is not None:
                _write_scores(folder, saved, _of_other_policies(saved.scores, evaluation))

    def _saved(self, evaluation: Evaluation) -> tuple[Path, KernelRecord | None]:
        """The folder of a candidate, and its record if it is saved."""
        place = self.generated / evaluation.backend / _problem_name(evaluation)
        return _folder(place, evaluation.candidate_sha, evaluation.problem_sha)

    def _change(self, kernel: Kernel, change: Callable[[_Scores], _Scores]) -> None:
        with self._locked():
            if not (kernel.folder / _SCORE).exists():
                return  # removed meanwhile
            record = _read_record(kernel.folder)
            _write_scores(kernel.folder, record, change(record.scores))

    def _locked(self) -> AbstractContextManager[None]:
        """Keep other processes from changing kernels: each change reads, merges and writes."""
        return locked(self.generated / _LOCK, wait_s=LOCK_WAIT_S)

    def kernels(self, on_damage: Callable[[Path, ArchiveError], None] | None = None) -> Iterator[Kernel]:
        """Yield the saved kernels by folder; those that cannot be read go to `on_damage`, or raise."""
        for path in sorted(self.generated.glob(f"*/*/*/{_SCORE}")):
            try:
                kernel = _read(path.parent)
            except ArchiveError as error:
                if on_damage is None:
                    raise
                on_damage(path.parent, error)
            else:
                yield kernel

    def fastest(self, evaluation: Evaluation) -> Evaluation | None:
        """The best saved score of the evaluation's problem under its policy; damaged kernels are left out."""
        policy, name = policy_of(evaluation), _problem_name(evaluation)
        found: list[Evaluation] = []
        for path in sorted(self.generated.glob(f"*/{escape(name)}/*/{_SCORE}")):
            with suppress(ArchiveError):
                found += [score for score in _read_record(path.parent).scores if policy_of(score) == policy]
        same = [score for score in found if score.problem_sha == evaluation.problem_sha]
        return max(same, key=lambda score: fit_speedup(score) or 0.0, default=None)

    def kernel(self, name: str) -> Kernel:
        """Return the saved kernel with this id or unique prefix; raises UnknownKernel for none or several."""
        folders = sorted(path.parent for path in self.generated.glob(f"*/*/*/{_SCORE}"))
        fits = [folder for folder in folders if folder.name.startswith(name)]
        exact = [folder for folder in fits if folder.name == name]
        if len(exact or fits) == 1:
            return _read((exact or fits)[0])
        if fits:
            raise UnknownKernel(f"{name!r} could be {', '.join(str(folder) for folder in fits)}")
        close = get_close_matches(name, [folder.name for folder in folders], n=NAMED, cutoff=0.0)
        known = f"it holds {len(folders)}: {', '.join(close)}" if close else "it holds none"
        more = ", ..." if len(folders) > len(close) > 0 else ""
        raise UnknownKernel(f"no saved kernel {name!r} below {self.generated}; {known}{more}")


def _folder(place: Path, sha: str, problem_sha: str) -> tuple[Path, KernelRecord | None]:
    # A short id that another kernel has taken (or the same source for another problem of that name) grows.
    for digits in range(ID_DIGITS, len(sha) + 1):
        folder = place / sha[:digits]
        if not (folder / _SCORE).exists():
            return folder, None
        try:
            record = _read_record(folder)
        except ArchiveError:
            continue  # a damaged one stays for its owner to restore
        if (record.sha, record.problem_sha) == (sha, problem_sha):
            return folder, record
    return place / f"{sha}-{problem_sha[:ID_DIGITS]}", None


def _merge(scores: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    latest: dict[str, Evaluation] = {}
    for score in sorted(scores, key=lambda score: score.evaluated_at):
        latest[policy_of(score).model_dump_json()] = score
    return tuple(latest[policy] for policy in sorted(latest))


def _of_other_tasks(scores: _Scores, evaluation: Evaluation) -> _Scores:
    return tuple(score for score in scores if not _speaks_of(evaluation, score, lambda policy: policy.task))


def _of_other_policies(scores: _Scores, evaluation: Evaluation) -> _Scores:
    return tuple(score for score in scores if not _speaks_of(evaluation, score, lambda policy: policy))


def _speaks_of(evaluation: Evaluation, score: Evaluation, part: Callable[[ScorePolicy], object]) -> bool:
    """True if an evaluation is of the same part of a policy as a score.

    One that reached no device speaks of every machine. A candidate that is refused for what it did, or for
    its source alone, is refused under every policy.
    """
    is_refused = evaluation.stage is Stage.SCREEN and evaluation.status is not Status.PASSED
    if is_refused or Score.of(evaluation).is_lasting:
        return True
    policy, of_score = policy_of(evaluation), policy_of(score)
    return part(policy if evaluation.environment else policy.on(of_score)) == part(of_score)


def _problem_name(evaluation: Evaluation) -> str:
    """The last part of a problem's id, as the name of a folder that lies nowhere else."""
    name = evaluation.problem.rpartition("/")[2].replace("\0", "_")
    return name if name.strip(".") else f"_{name}"


def _read(folder: Path) -> Kernel:
    record = _read_record(folder)
    try:
        source = read_regular(folder / _SOURCE).decode("utf-8", "surrogatepass")
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{folder / _SOURCE} is damaged ({type(error).__name__}); restore it") from None
    if Candidate(source=source, backend=record.backend).sha != record.sha:
        raise ArchiveError(f"{folder / _SOURCE} is not the source that was scored; restore it")
    if not record.sha.startswith(folder.name.partition("-")[0] or "-"):
        raise ArchiveError(f"{folder} holds another kernel, {record.sha[:ID_DIGITS]}; restore it")
    return Kernel(id=folder.name, folder=folder, source=source, record=record)


def _read_record(folder: Path) -> KernelRecord:
    path = folder / _SCORE
    try:
        text = read_regular(path)
        version = json.loads(text).get("schema_version", 0)
        if version > SCHEMA_VERSION:
            raise ArchiveError(f"{path} was written by a newer kernelwright (schema {version}); upgrade it")
        return KernelRecord.model_validate_json(text)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ArchiveError(f"{path} is damaged ({type(error).__name__}); restore it") from None


def _write_scores(folder: Path, record: KernelRecord, scores: _Scores) -> None:
    """Replace a kernel's scores; one without any is removed."""
    if scores:
        _write(folder / _SCORE, _json(record.model_copy(update={"scores": _merge(scores)})))
    else:
        shutil.rmtree(folder)


def _json(record: KernelRecord) -> str:
    held = plain(record.model_dump(mode="json"))
    return json.dumps(held, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    with suppress(OSError):
        if read_regular(path) == data:
            return
    write_whole(path, data)
