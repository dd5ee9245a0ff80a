"""The formats of training data: each is one exporter, a function that writes its rows, and its tables."""

from __future__ import annotations

from typing import Final

from kernelwright.agent.datasets.dataset_export import REPEAT, DatasetExport, DatasetExporter
from kernelwright.agent.datasets.export_settings import Pairing
from kernelwright.agent.datasets.select.near_duplicates import sketch
from kernelwright.agent.datasets.select.preference_pairs import Pair, pairs_of
from kernelwright.agent.datasets.write import columns
from kernelwright.agent.datasets.write.dataset_rows import (
    attempt_row,
    preference_row,
    rl_row,
    sft_rows,
    unpaired_row,
)
from kernelwright.agent.datasets.write.trajectories import TrajectoryTurn, conversations, trajectory_rows
from kernelwright.agent.records.attempt_view import AttemptView


def _write_sft(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    work.leave_out("failed", sum(facts.failed for facts in attempts))
    for facts in work.examples(attempts):
        work.put(split, sft_rows(work.texts, facts, work.stage.attempt(facts)))


def _write_unpaired(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    for kind in (work.examples, work.failures):
        for facts in kind(attempts):
            work.put(split, {"unpaired": unpaired_row(work.texts, facts, work.stage.attempt(facts))})


def _write_preference(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    fit = [*work.examples(attempts), *work.failures(attempts)]
    by_prompt = work.settings.pairing is Pairing.PROMPT
    paired: set[str] = set()
    written = 0
    for pair in pairs_of(fit, lambda facts: facts.prompt if by_prompt else ""):
        if written == work.settings.pairs:
            break
        asked = pair.chosen if by_prompt else _opening(attempts, pair)
        if asked is None:
            continue
        both = work.stage.attempt(pair.chosen), work.stage.attempt(pair.rejected)
        new = {pair.chosen.attempt, pair.rejected.attempt} - paired
        prompt = work.texts.prompt(work.stage.attempt(asked))
        work.put(split, {"preference": preference_row(work.texts, pair, prompt, both)}, len(new))
        paired |= new
        written += 1
    work.leave_out("in no pair", len(fit) - len(paired))
    if by_prompt and len(paired) < len(fit):
        work.exported.hint = "--pair-by problem also pairs answers to different prompts of one problem"


def _opening(attempts: list[AttemptView], pair: Pair) -> AttemptView | None:
    """The attempt whose prompt opened the conversations of a problem and backend."""
    same = (pair.chosen.problem_sha, pair.chosen.backend)
    return next((one for one in attempts if one.turn == 0 and (one.problem_sha, one.backend) == same), None)


def _write_rl(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    asked: set[tuple[str, str]] = set()
    for facts in attempts:
        attempt = work.stage.attempt(facts)
        if facts.turn or attempt.completion.parents:
            work.leave_out("not the beginning of a conversation")
        elif (facts.backend, facts.prompt) in asked:
            work.leave_out("the same prompt as another")
        else:
            asked.add((facts.backend, facts.prompt))
            work.put(split, {"rl": rl_row(work.texts, facts, attempt)})


def _write_trajectories(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    repeats = work.repeats()
    for conversation in conversations(attempts):
        if not any(facts.is_wanted for facts in conversation):
            work.leave_out("filter: no turn is wanted", len(conversation))
            continue
        turns = [
            TrajectoryTurn(facts, work.stage.attempt(facts), work.stage.doubt(facts))
            for facts in conversation
        ]
        said = "\n".join(work.texts.code(turn.attempt) or work.texts.reply(turn.attempt) for turn in turns)
        if repeats is not None and not repeats.add(sketch(said)):
            work.leave_out(REPEAT, len(turns))
            continue
        for row in trajectory_rows(work.texts, turns):
            work.put(split, {"trajectories": row}, len(row["turns"]))


def _write_attempts(work: DatasetExport, split: str, attempts: list[AttemptView]) -> None:
    for facts in attempts:
        attempt, doubt = work.stage.attempt(facts), work.stage.doubt(facts)
        work.put(split, {"attempts": attempt_row(work.texts, facts, attempt, doubt)})


SFT: Final = DatasetExporter(
    "sft",
    "supervised fine-tuning: correct answers",
    (columns.MESSAGES, columns.PROMPT_COMPLETION),
    _write_sft,
)
PREFERENCE: Final = DatasetExporter(
    "preference", "pairs for DPO: correct over wrong, faster over slower", (columns.PAIRS,), _write_preference
)
UNPAIRED: Final = DatasetExporter(
    "unpaired", "labelled single answers for KTO", (columns.UNPAIRED,), _write_unpaired
)
RL: Final = DatasetExporter(
    "rl",
    "prompts and the policy that scores answers, for RL",
    (columns.PROMPTS,),
    _write_rl,
    takes_unevaluated=True,
    needs_reference=True,
)
TRAJECTORIES: Final = DatasetExporter(
    "trajectories",
    "whole conversations with the reward of every turn",
    (columns.TRAJECTORIES,),
    _write_trajectories,
    is_conversational=True,
)
ATTEMPTS: Final = DatasetExporter(
    "attempts",
    "every attempt, failures included",
    (columns.ATTEMPTS,),
    _write_attempts,
    takes_unevaluated=True,
    takes_promptless=True,
)
