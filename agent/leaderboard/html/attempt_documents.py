"""One attempt as a document: score, sources, logs, conversation, and commands to measure it again.

Texts have ids here and are read later, as far as there is room.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from kernelwright.agent.archive import Archive
from kernelwright.agent.leaderboard.display_text import without_folders
from kernelwright.agent.leaderboard.evaluation_facts import facts_of
from kernelwright.agent.leaderboard.html.syntax_colours import runs
from kernelwright.agent.leaderboard.policy import TEXT_CHARACTERS
from kernelwright.agent.records.attempt_log import Attempt, Text, TextRef
from kernelwright.evaluator import Evaluation, Passes, sha256_text, visible

# Unambiguous: a candidate's printed text must not make it backtrack.
_NUMBERS: Final = re.compile(r"\[\s+([\d.eE+-]+(?:,\s+[\d.eE+-]+)*)\s+\]")


def text_value(text: str) -> dict[str, object]:
    """A text and, when it was cut, how long it was."""
    shown = visible(text[:TEXT_CHARACTERS])
    return {"text": shown} | ({"of": len(text)} if len(text) > TEXT_CHARACTERS else {})


def source_value(text: str) -> dict[str, object]:
    value = text_value(text)
    return value | {"runs": runs(str(value["text"]))}


def json_value(text: str) -> dict[str, object]:
    """A record laid out for people, each list of numbers on one line."""
    laid_out = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text_value(_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", laid_out))


@dataclass(slots=True)
class DocumentSources:
    """Ids of texts, the same for equal texts, and functions that read them."""

    archive: Archive
    fetch: dict[int, Callable[[], object]] = field(default_factory=dict)
    """Reads a text and makes the page's value of it."""
    _ids: dict[str, int] = field(default_factory=dict)

    def text(self, run: str, text: Text, make: Callable[[str], object] = text_value) -> int:
        """The id of a text of a run."""
        sha = text.sha if isinstance(text, TextRef) else sha256_text(text)
        return self.put(f"{make.__name__} {sha}", lambda: make(self.archive.text(run, text)))

    def put(self, name: str, make: Callable[[], object]) -> int:
        """The id of a name."""
        key = self._ids.setdefault(name, len(self._ids) + 1)
        self.fetch.setdefault(key, make)
        return key


@dataclass(frozen=True, slots=True)
class AttemptDocument:
    """One attempt as a section shows it."""

    value: dict[str, object]
    """As the page's scripts read it."""
    source: int | None
    """Id of its source; None when the reply held none."""
    reference: int | None
    """Id of the problem's source; None when the run did not record it."""
    conversation: tuple[int, ...]
    logs: tuple[int, ...]
    """Ids of compiler logs, tracebacks and printed output, then of the whole evaluation."""
    flaws: tuple[str, ...]
    """Flaws of the problem that vetting found."""


def document(
    shelf: DocumentSources, attempt: Attempt, workspace: Path, problem_source: Text | None
) -> AttemptDocument:
    """Everything about one evaluated attempt.

    Raises:
        ArchiveError: its evaluation is missing or damaged.
    """
    run, line = attempt.key.run, attempt.completion
    evaluation = shelf.archive.evaluation(attempt)
    if evaluation is None or attempt.evaluation is None:
        raise ValueError(f"attempt {attempt.id} was not evaluated")
    source = None if line.code is None else shelf.text(run, line.code, source_value)
    reference = None if problem_source is None else shelf.text(run, problem_source, source_value)
    said: list[tuple[str, Text]] = [(message.role, message.content) for message in line.prompt]
    said += [("reasoning", line.reasoning)] if line.reasoning else []
    said += [("reply", line.reply)]
    conversation = tuple((role, shelf.text(run, text), lies(run, text)) for role, text in said)
    log = shelf.text(run, attempt.evaluation.evaluation, json_value)
    logs = [
        (label, shelf.put(f"{label} {attempt.id}", partial(text_value, text)))
        for label, text in logs_of(evaluation)
    ]
    return AttemptDocument(
        value={
            "facts": [[label, visible(value)] for label, value in facts(evaluation, attempt)],
            "source": source,
            "sourceAt": "" if line.code is None else lies(run, line.code),
            "reference": reference,
            "conversation": conversation,
            "logs": [[visible(label), key] for label, key in logs],
            "log": log,
            "logAt": lies(run, attempt.evaluation.evaluation),
            "commands": [
                [visible(label), visible(command)]
                for label, command in commands(evaluation, attempt, workspace)
            ],
        },
        source=source,
        reference=reference,
        conversation=tuple(key for _, key, _ in conversation),
        logs=(*(key for _, key in logs), log),
        flaws=tuple(map(visible, evaluation.problem_flaws)),
    )


def logs_of(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Outputs of tools and of the candidate: label and text, without folders of this machine."""
    for build in evaluation.builds:
        if build.log:
            yield f"compile log of {build.name}", without_folders(build.log)
    if evaluation.traceback:
        yield "traceback", without_folders(evaluation.traceback)
    if evaluation.output_tail:
        yield "printed output, last part", evaluation.output_tail


def lies(run: str, text: Text) -> str:
    """Path of a text below the workspace."""
    if isinstance(text, TextRef):
        return visible(f"runs/{run}/texts/{text.sha[:2]}/{text.sha}.txt")
    return visible(f"runs/{run}/attempts.jsonl")


def facts(evaluation: Evaluation, attempt: Attempt) -> Iterator[tuple[str, str]]:
    """The score in words, as label and value."""
    yield "status", evaluation.status.value
    yield from facts_of(evaluation)
    line, key = attempt.completion, attempt.key
    tokens = f"{line.usage.prompt_tokens:,} + {line.usage.completion_tokens:,} tokens"
    cost = f", ${line.cost_usd:.4f}" if line.cost_usd else ""
    yield "asked", f"{key.model} by {key.strategy}, sample {key.sample}, turn {key.turn}: {tokens}{cost}"
    yield "answered", f"{line.answered_by} through {line.provider}, {line.completed_at}"
    yield "licence", line.license or "not stated"
    if line.origin:
        yield "origin", line.origin
    yield "attempt", f"{attempt.id} of run {key.run}"


def commands(evaluation: Evaluation, attempt: Attempt, workspace: Path) -> Iterator[tuple[str, str]]:
    """Commands that evaluate it again, each with its purpose."""
    line, key = attempt.completion, attempt.key
    if line.code is None:
        return
    # The id of a saved kernel is a prefix of the hash of its source.
    sha = evaluation.candidate_sha
    folder = workspace / "generated" / key.backend / key.problem.rpartition("/")[2]
    kept = next((path for path in (folder / sha[:12], folder / sha) if path.is_dir()), None)
    if evaluation.status == "PASSED" and kept is not None:
        yield "evaluate the saved kernel again", f"kernelwright verify {kept.name} --workspace ."
    inside = isinstance(line.code, str)
    path = "kernel.py" if inside else lies(key.run, line.code)
    label = "save the source as kernel.py and evaluate it" if inside else "evaluate its source again"
    yield label, " ".join(["kernelwright evaluate", shlex.quote(path), *_options(evaluation)])


def _options(evaluation: Evaluation) -> Iterator[str]:
    config = evaluation.config
    yield f"--problem {shlex.quote(evaluation.problem)} --backend {shlex.quote(evaluation.backend)}"
    if config.device != "auto":
        yield f"--device {shlex.quote(config.device)}"
    if config.passes is Passes.FORWARD_BACKWARD:
        yield "--backward"
    if config.shapes is not None:
        yield f"--shapes {shlex.quote(config.shapes)}"
    yield f"--dtype {config.dtype} --math {config.math} --baselines {','.join(config.baselines)}"
    if not config.measure:
        yield "--no-time"
