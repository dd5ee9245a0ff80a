"""Attempts as rows: values of the columns that `columns` declares."""

from __future__ import annotations

from enum import StrEnum

from kernelwright.agent.datasets.policy import FAILED
from kernelwright.agent.datasets.select.attempt_stage import Doubt
from kernelwright.agent.datasets.select.preference_pairs import Pair
from kernelwright.agent.datasets.select.rewards import reward
from kernelwright.agent.datasets.write.columns import SOURCE, Row
from kernelwright.agent.datasets.write.message_texts import MessageTexts, Turn, answered, tokens
from kernelwright.agent.leaderboard.display_text import without_folders
from kernelwright.agent.records.attempt_log import Attempt
from kernelwright.agent.records.attempt_view import AttemptView
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.agent.records.tokens import estimate_tokens


def source_of(attempt: Attempt) -> Row:
    """The columns of `SOURCE`: fields of the key, the completion and the score by their names."""
    line, key, recorded = attempt.completion, attempt.key, attempt.evaluation
    score = recorded.score if recorded else None
    known: Row = {
        "attempt": attempt.id,
        "origin": whole_characters(line.origin),
        "evaluation_sha": recorded.evaluation_sha if recorded else None,
        "policy": score.id if score else None,
        "baselines": list(score.baselines) if score else [],
        "speedup_low": score.low if score else None,
        "speedup_high": score.high if score else None,
    }
    return {name: known[name] if name in known else _field(name, key, line, score) for name in SOURCE}


def _field(name: str, *holders: object) -> object:
    value = next((getattr(holder, name) for holder in holders if hasattr(holder, name)), None)
    return value.value if isinstance(value, StrEnum) else value


def worth(facts: AttemptView, attempt: Attempt, doubt: Doubt) -> float | None:
    """An attempt's reward: None until it is evaluated, 0 for a doubtful pass."""
    if attempt.evaluation is None:
        return None
    # A slower pass is no example, and its reward says so already.
    is_doubtful = doubt not in (Doubt.NONE, Doubt.SLOWER)
    return FAILED if is_doubtful else reward(facts.status, facts.fatal, facts.low)


def problem_of(facts: AttemptView) -> Row:
    return {"problem": facts.problem, "problem_sha": facts.problem_sha}


def sft_rows(texts: MessageTexts, facts: AttemptView, attempt: Attempt) -> dict[str, Row]:
    """One correct answer, as a conversation and as prompt and completion."""
    row = _answer_row(texts, facts, attempt)
    both = {name: value for name, value in row.items() if name not in ("prompt", "completion")}
    return {"messages": {"messages": [*row["prompt"], *row["completion"]], **both}, "prompt_completion": row}


def unpaired_row(texts: MessageTexts, facts: AttemptView, attempt: Attempt) -> Row:
    return {**_answer_row(texts, facts, attempt), "label": facts.passed}


def _answer_row(texts: MessageTexts, facts: AttemptView, attempt: Attempt) -> Row:
    prompt, completion = texts.prompt(attempt), answered(texts.reply(attempt))
    return {
        "prompt": prompt,
        "completion": completion,
        **problem_of(facts),
        "prompt_tokens": tokens(prompt),
        "completion_tokens": tokens(completion),
        "source": source_of(attempt),
    }


def rl_row(texts: MessageTexts, facts: AttemptView, attempt: Attempt) -> Row:
    """One opening prompt, and the policy that evaluates answers to it."""
    prompt = texts.prompt(attempt)
    return {
        "prompt": prompt,
        **problem_of(facts),
        "backend": facts.backend,
        "reference": whole_characters(texts.reference(facts.run, facts.problem)),
        "verifier": texts.policy(facts.run),
        "prompt_tokens": tokens(prompt),
    }


def preference_row(texts: MessageTexts, pair: Pair, prompt: list[Turn], both: tuple[Attempt, Attempt]) -> Row:
    """A pair, chosen first in `both`."""
    chosen, rejected = (answered(texts.reply(attempt)) for attempt in both)
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "reason": pair.reason,
        **problem_of(pair.chosen),
        "prompt_tokens": tokens(prompt),
        "chosen_tokens": tokens(chosen),
        "rejected_tokens": tokens(rejected),
        "chosen_source": source_of(both[0]),
        "rejected_source": source_of(both[1]),
    }


def attempt_row(texts: MessageTexts, facts: AttemptView, attempt: Attempt, doubt: Doubt) -> Row:
    line, score = attempt.completion, attempt.evaluation.score if attempt.evaluation else None
    prompt, reply = texts.prompt(attempt), texts.reply(attempt)
    same = ("stage", "outcome", "rule", "finish_reason", "speed_of_light", "cost_usd")
    return {
        **problem_of(facts),
        **source_of(attempt),
        **{name: _field(name, line, score) for name in same},
        "detail": without_folders(score.detail) if score else None,
        "fatal": list(score.fatal) if score else [],
        "is_cheat": facts.is_cheat,
        "doubt": doubt.value,
        "reward": worth(facts, attempt, doubt),
        "counted_prompt_tokens": line.usage.prompt_tokens,
        "counted_completion_tokens": line.usage.completion_tokens,
        "counted_reasoning_tokens": line.usage.reasoning_tokens,
        "answer_seconds": line.seconds,
        "judging_seconds": score.seconds if score else None,
        "prompt": prompt,
        "reply": reply,
        "code": texts.code(attempt),
        "prompt_tokens": tokens(prompt),
        "completion_tokens": estimate_tokens(reply),
    }
