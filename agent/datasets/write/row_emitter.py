"""Turns the staged attempts of one problem after another into rows, a function a format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.datasets.export_settings import Dedup, Format, Pairing, Settings
from kernelwright.agent.datasets.select.archive_reader import DAMAGED, Reader, Tally
from kernelwright.agent.datasets.select.attempt_facts import AttemptFacts
from kernelwright.agent.datasets.select.attempt_stage import AttemptStage
from kernelwright.agent.datasets.select.near_duplicates import NEAR_SHARE, Repeats, sketch
from kernelwright.agent.datasets.select.preference_pairs import Pair, pairs_of
from kernelwright.agent.datasets.write.dataset_rows import (
    attempt_row,
    preference_row,
    problem_of,
    sft_rows,
    unpaired_row,
)
from kernelwright.agent.datasets.write.features import Row
from kernelwright.agent.datasets.write.message_texts import Texts, clean, tokens
from kernelwright.agent.datasets.write.row_files import Tables
from kernelwright.agent.datasets.write.trajectories import Judged, conversations, trajectory_rows
from kernelwright.evaluator import EvaluationConfig

FAILED: Final = "failed"
REPEAT: Final = "repeat"
SILENT: Final = "no answer beside its thoughts"
UNPAIRED: Final = "in no pair"


@dataclass(frozen=True, slots=True)
class Emitter:
    """Writes the rows of an export."""

    archive: Archive
    settings: Settings
    stage: AttemptStage
    reader: Reader
    tables: Tables
    texts: Texts

    @property
    def tally(self) -> Tally:
        """What became of the attempts."""
        return self.reader.tally

    def emit(self) -> None:
        """Write every row; an attempt whose texts are missing or damaged is in none.

        Raises:
            OSError: a file cannot be written.
        """
        write = _WRITERS[self.settings.format]
        for problem in self.stage.problems():
            split = self.reader.problems.split(problem)
            facts = self.stage.facts(problem)
            damaged = self._damaged(facts)
            self.leave_out(DAMAGED, len(damaged))
            write(self, split, [one for one in facts if one.ordinal not in damaged])

    def put(self, split: str, rows: dict[str, Row]) -> None:
        """Write a row of each table."""
        for config, row in rows.items():
            self.tables.write(config, split, row)

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Say why attempts are in no row."""
        if count:
            self.tally.left_out[reason] += count

    def examples(self, attempts: list[AttemptFacts]) -> Iterator[AttemptFacts]:
        """What passed beyond doubt, surest and fastest first, without repeats."""
        passed = [facts for facts in attempts if facts.passed]
        passed.sort(key=lambda facts: (-(facts.low or 0.0), facts.ordinal))
        repeats = self.repeats()
        for facts in passed:
            doubt = self.stage.doubt(facts)
            if doubt:
                self.leave_out(f"doubt: {doubt}")
            elif self._is_new(facts, repeats):
                yield facts

    def failures(self, attempts: list[AttemptFacts]) -> Iterator[AttemptFacts]:
        """What failed, without repeats."""
        repeats = self.repeats()
        return (facts for facts in attempts if facts.failed and self._is_new(facts, repeats))

    def repeats(self) -> Repeats | None:
        """A memory of what was seen; None where repeats are wanted."""
        if self.settings.dedup is Dedup.NONE:
            return None
        return Repeats(NEAR_SHARE if self.settings.dedup is Dedup.NEAR else None)

    def _damaged(self, attempts: list[AttemptFacts]) -> set[int]:
        damaged = [facts for facts in attempts if not self._is_whole(facts)]
        if self.settings.format is Format.TRAJECTORIES:
            # A conversation without one of its turns is none.
            lost = {facts.conversation for facts in damaged}
            damaged = [facts for facts in attempts if facts.conversation in lost]
        return {facts.ordinal for facts in damaged}

    def _is_whole(self, facts: AttemptFacts) -> bool:
        attempt = self.stage.attempt(facts.ordinal)
        try:
            self.texts.prompt(attempt), self.texts.reply(attempt), self.texts.code(attempt)
            if self.settings.format is Format.RL:
                _policy(self.archive, facts.run), _reference(self.archive, facts.run, facts.problem)
        except ArchiveError:
            return False
        return True

    def _is_new(self, facts: AttemptFacts, repeats: Repeats | None) -> bool:
        attempt = self.stage.attempt(facts.ordinal)
        reply = self.texts.reply(attempt)
        if not reply:
            self.leave_out(SILENT)
            return False
        if repeats is not None and not repeats.add(sketch(self.texts.code(attempt) or reply)):
            self.leave_out(REPEAT)
            return False
        return True


def _sft(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    work.leave_out(FAILED, sum(facts.failed for facts in attempts))
    for facts in work.examples(attempts):
        work.put(split, sft_rows(work.texts, facts, work.stage.attempt(facts.ordinal)))
        work.tally.used += 1


def _unpaired(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    for kind in (work.examples, work.failures):
        for facts in kind(attempts):
            attempt = work.stage.attempt(facts.ordinal)
            work.put(split, {"unpaired": unpaired_row(work.texts, facts, attempt)})
            work.tally.used += 1


def _preference(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    fit = [*work.examples(attempts), *work.failures(attempts)]
    by_prompt = work.settings.pairing is Pairing.PROMPT
    paired: set[int] = set()
    written = 0
    # Doubtful passes never reach `fit`, so that every pass in it is an example.
    for pair in pairs_of(fit, lambda facts: True, lambda facts: facts.prompt if by_prompt else ""):
        if written == work.settings.pairs:
            break
        asked = pair.chosen.ordinal if by_prompt else _opening(attempts, pair)
        if asked is None:
            continue
        both = work.stage.attempt(pair.chosen.ordinal), work.stage.attempt(pair.rejected.ordinal)
        prompt = work.texts.prompt(work.stage.attempt(asked))
        work.put(split, {"preference": preference_row(work.texts, pair, prompt, both)})
        paired |= {pair.chosen.ordinal, pair.rejected.ordinal}
        written += 1
    work.tally.used += len(paired)
    work.leave_out(UNPAIRED, len(fit) - len(paired))


def _opening(attempts: list[AttemptFacts], pair: Pair) -> int | None:
    """The attempt whose prompt opened the conversations of a problem and backend."""
    chosen = pair.chosen
    return next(
        (
            facts.ordinal
            for facts in attempts
            if facts.turn == 0 and (facts.problem_sha, facts.backend) == (chosen.problem_sha, chosen.backend)
        ),
        None,
    )


def _rl(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    asked: set[tuple[str, str]] = set()
    for facts in attempts:
        attempt = work.stage.attempt(facts.ordinal)
        if facts.turn or attempt.completion.parents:
            work.leave_out("not the beginning of a conversation")
        elif (facts.backend, facts.prompt) in asked:
            work.leave_out("the same prompt as another")
        else:
            asked.add((facts.backend, facts.prompt))
            prompt = work.texts.prompt(attempt)
            row: Row = {
                "prompt": prompt,
                **problem_of(facts),
                "backend": facts.backend,
                "reference": clean(_reference(work.archive, facts.run, facts.problem)),
                "verifier": _policy(work.archive, facts.run),
                "prompt_tokens": tokens(prompt),
            }
            work.put(split, {"rl": row})
            work.tally.used += 1


def _trajectories(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    repeats = work.repeats()
    for turns in conversations(attempts):
        if not any(facts.is_wanted for facts in turns):
            work.leave_out("filter: no turn is wanted", len(turns))
            continue
        judged = [
            Judged(facts, work.stage.attempt(facts.ordinal), work.stage.doubt(facts)) for facts in turns
        ]
        said = "\n".join(work.texts.code(turn.attempt) or work.texts.reply(turn.attempt) for turn in judged)
        if repeats is not None and not repeats.add(sketch(said)):
            work.leave_out(REPEAT, len(turns))
            continue
        for row in trajectory_rows(work.texts, judged):
            work.put(split, {"trajectories": row})
        work.tally.used += len(turns)


def _attempts(work: Emitter, split: str, attempts: list[AttemptFacts]) -> None:
    for facts in attempts:
        attempt, doubt = work.stage.attempt(facts.ordinal), work.stage.doubt(facts)
        work.put(split, {"attempts": attempt_row(work.texts, facts, attempt, doubt)})
        work.tally.used += 1


_WRITERS: Final = MappingProxyType[Format, Callable[[Emitter, str, list[AttemptFacts]], None]](
    {
        Format.SFT: _sft,
        Format.PREFERENCE: _preference,
        Format.UNPAIRED: _unpaired,
        Format.RL: _rl,
        Format.TRAJECTORIES: _trajectories,
        Format.ATTEMPTS: _attempts,
    }
)


@lru_cache(maxsize=64)
def _policy(archive: Archive, run: str) -> str:
    """The policy a run judges under, JSON."""
    plan = json.loads(archive.text(run, archive.started(run).plan))
    return EvaluationConfig.model_validate(plan.get("config", {})).model_dump_json()


@lru_cache(maxsize=1024)
def _reference(archive: Archive, run: str, problem: str) -> str:
    used = archive.problems_used(run).get(problem)
    return "" if used is None else archive.text(run, used.source)
