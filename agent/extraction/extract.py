"""Finds the candidate in a model's reply, and states the rule that found it, or why there is none.

Extracted code always parses, defines `ModelNew` at its top level and encodes as UTF-8. Only the
answer counts: what lies behind the end of the model's reasoning, or everything when it did not mark any. In
it the last complete block with a `ModelNew` wins; drafts before it are passed over. A reply cut by its
length limit yields code only from a complete block, never from one that was still being written.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from kernelwright.agent.extraction.assembly import assemble
from kernelwright.agent.extraction.code_fences import Block, find_blocks
from kernelwright.agent.extraction.policy import LONGEST_TEXT, PARAGRAPHS_BEHIND, UNFENCED_STARTS
from kernelwright.agent.extraction.python_modules import (
    Module,
    last_model_offset,
    mentions_model,
    read_module,
)
from kernelwright.agent.records.strict_json import whole_characters
from kernelwright.evaluator import Record, Status

_End: TypeAlias = Literal["cut", "refused", "itself", "unknown"]
"""The endpoint's reason for the reply's end; `itself` where the model ended it."""
_WHOLE: Final = ("itself", "unknown")
_CUT: Final = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_REFUSED: Final = frozenset({"content_filter", "refusal", "safety", "sensitive"})
_TAG: Final = re.compile(
    r"""(?<!`)(?:
        <(?P<slash>/?)(?:think|thinking|thought|reasoning)> | \[(?P<slash2>/?)THINK\] | ◁(?P<slash3>/?)think▷
        | <\|channel\|>(?:analysis|(?P<final>final))<\|message\|>
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Marks of reasoning in replies; a closing mark has a group that is not empty."""
_SENTENCE_ENDS: Final = frozenset(".!?:;)]}>\"'`*_|…。！？”’»-=~")
_PROSE: Final = re.compile(
    rf"(?!(?:{'|'.join(keyword.kwlist)})\b)[A-Za-z*#>\-0-9][^\s=]*(?:[ ][^\s=]+){{2,}}\s*$"
)
"""A line that is no statement: three words or more, no keyword first, nothing assigned or compared."""
_IMPORTS: Final = re.compile(
    r"""^(?:(?:
        import[ \t]+[\w.]+[ \t]*(?:as[ \t]+\w+[ \t]*)?(?:[,;\#][^\n]*)? | from[ \t]+[\w.]+[ \t]+import\b[^\n]*
    )\n\s*)+""",
    re.MULTILINE | re.VERBOSE,
)


class ExtractionOutcome(StrEnum):
    """Outcome of an extraction."""

    CODE = "CODE"
    NO_CODE = "NO_CODE"
    TRUNCATED = "TRUNCATED"


class Rule(StrEnum):
    """The rule that decided."""

    LAST_BLOCK = "last_block"
    """The last complete block that defines `ModelNew`."""
    NESTED_FENCES = "nested_fences"
    """The same, with fences inside its strings."""
    EARLIER_BLOCK = "earlier_block"
    """A complete block, though a later one was broken, cut or only an excerpt."""
    MERGED_BLOCKS = "merged_blocks"
    """A module that needed other blocks of the answer, put before it."""
    UNCLOSED_BLOCK = "unclosed_block"
    """The last block: whole, but its closing fence is missing."""
    UNFENCED = "unfenced"
    """No fence anywhere: the text, or the part from its imports on, is a module."""
    JSON = "json"
    """A string inside a JSON value."""
    REASONING = "reasoning"
    """The reply ended by itself inside its reasoning; the last complete block there."""
    EMPTY = "empty"
    REFUSED = "refused"
    """The endpoint says that a filter stopped the reply."""
    NO_MODEL_NEW = "no_model_new"
    """Nothing in the answer defines `ModelNew`."""
    SYNTAX_ERROR = "syntax_error"
    """Something defines `ModelNew`, but does not parse; the notes say where."""
    LENGTH = "length"
    """The endpoint says that the length limit was met."""
    IN_REASONING = "in_reasoning"
    """The reply ends inside its reasoning."""
    IN_BLOCK = "in_block"
    """The reply ends inside a block."""
    MID_SENTENCE = "mid_sentence"
    """Nobody says why the reply ended, but it ends within a sentence."""


class Extraction(Record):
    """The content of a reply."""

    outcome: ExtractionOutcome
    code: str = ""
    """The candidate's source; empty unless the outcome is `CODE`."""
    rule: Rule
    notes: tuple[str, ...] = ()
    """Remarks, each a short sentence for people and for the model."""

    @property
    def status(self) -> Status | None:
        """The status of an attempt that ends here; None when there is code to evaluate."""
        match self.outcome:
            case ExtractionOutcome.CODE:
                return None
            case ExtractionOutcome.NO_CODE:
                return Status.NO_CODE
            case ExtractionOutcome.TRUNCATED:
                return Status.TRUNCATED


def extract(text: str, *, finish_reason: str | None, reasoning: str = "") -> Extraction:
    """Find the candidate in a reply; never raises, in time linear in the reply.

    `finish_reason` is the endpoint's, None or `unknown` where nobody knows; `reasoning` is what came apart
    from the reply, and is looked at only if the reply itself is empty.
    """
    clean, notes = _cleaned(text)
    end = _end(finish_reason)
    parts = _split(clean)
    in_answers = [_find(answer, end) for answer in parts.answers]
    for found in in_answers:
        if found.code:
            return _code(found, notes, cut=end == "cut")
    thoughts = "\n".join(part for part in (_cleaned(reasoning)[0], parts.reasoning) if part)
    if end == "itself" and not parts.answers[0].strip() and thoughts:
        in_thoughts = _find(thoughts, end)
        if in_thoughts.code and in_thoughts.rule is not Rule.UNFENCED:
            return _code(_Found(in_thoughts.code, Rule.REASONING), notes, cut=False)
    outcome, rule = _why_not(parts, end, in_answers[0], bool(reasoning.strip()))
    flaws = (in_answers[0].flaw,) if in_answers[0].flaw else ()
    return Extraction(outcome=outcome, rule=rule, notes=(*notes, *flaws))


def _end(finish_reason: str | None) -> _End:
    reason = (finish_reason or "unknown").lower()
    if reason in _CUT:
        return "cut"
    if reason in _REFUSED:
        return "refused"
    return "unknown" if reason == "unknown" else "itself"


@dataclass(frozen=True, slots=True)
class _Parts:
    answers: tuple[str, ...]
    """Possible answers, best first; never empty."""
    reasoning: str
    """Reasoning that was begun and not ended, else all of it."""
    open_reasoning: bool


@dataclass(frozen=True, slots=True)
class _Found:
    code: str = ""
    rule: Rule = Rule.NO_MODEL_NEW
    flaw: str = ""
    open_block: bool = False
    """The text ends inside a block that looks like code."""


def _cleaned(text: str) -> tuple[str, list[str]]:
    notes: list[str] = []
    if len(text) > LONGEST_TEXT:
        notes.append(f"only the last {LONGEST_TEXT} characters were read")
        text = text[-LONGEST_TEXT:]
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if "\0" in text:
        notes.append("NUL bytes were removed")
        text = text.replace("\0", "")
    whole = whole_characters(text)
    if whole != text:
        notes.append("characters that cannot be encoded were replaced")
    return whole, notes


def _split(text: str) -> _Parts:
    tags = list(_TAG.finditer(text))
    closing = [tag for tag in tags if any(tag.groups())]
    begin = closing[-1].end() if closing else 0
    opening = next((tag for tag in tags if tag.start() >= begin and _starts_line(text, tag.start())), None)
    end = opening.start() if opening else len(text)
    answers = [text[begin:end]]
    if len(closing) > 1:
        answers.append(text[closing[0].end() :])
    return _Parts(
        answers=tuple(answers),
        reasoning=text[opening.end() :] if opening else text[:begin],
        open_reasoning=opening is not None,
    )


def without_thoughts(text: str) -> str:
    """A reply after its last thought, in whatever marks; empty when it holds nothing else."""
    return _split(text).answers[0].strip()


def _starts_line(text: str, offset: int) -> bool:
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip()


def _find(text: str, end: _End) -> _Found:
    wrapped = _in_json(text)
    if wrapped is not None:
        return wrapped
    blocks = find_blocks(text)
    if not blocks:
        return _unfenced(text) if end in _WHOLE else _Found()
    return _in_blocks(blocks, end)


def _in_blocks(blocks: list[Block], end: _End) -> _Found:
    broken, excerpt, passed_over = None, None, -1
    for index in range(len(blocks) - 1, -1, -1):
        block = blocks[index]
        if not block.may_be_python or not mentions_model(block.code):
            continue
        is_open = not block.closed and block.end == blocks[-1].end
        module = _read_open(block) if is_open else read_module(block.code)
        if module.is_model and not module.is_elided and (not is_open or end in _WHOLE):
            return _chosen(blocks, index, module, passed_over=passed_over)
        passed_over = max(passed_over, block.start)
        broken = broken or (module if module.flaw else None)
        if excerpt is None and module.is_model and not is_open:
            excerpt = index, module
    if excerpt is not None:
        return _chosen(blocks, *excerpt, passed_over=-1)
    begin = max(block.start for block in blocks)
    is_open = not any(block.closed for block in blocks if block.start == begin)
    if broken is not None:
        return _broken("block", broken, open_block=is_open)
    last = blocks[-1]
    looks_like_code = bool(last.language) or "import " in last.code or "load_inline" in last.code
    return _Found(open_block=is_open and looks_like_code)


def _broken(what: str, module: Module, *, open_block: bool = False) -> _Found:
    rule = Rule.SYNTAX_ERROR if module.tree is None else Rule.NO_MODEL_NEW
    return _Found(rule=rule, flaw=f"the {what} with ModelNew: {module.flaw}", open_block=open_block)


def _chosen(blocks: list[Block], index: int, module: Module, *, passed_over: int) -> _Found:
    block = blocks[index]
    code = assemble(module, blocks[:index], blocks[index + 1 :])
    if code != module.code:
        return _Found(code, Rule.MERGED_BLOCKS)
    if passed_over > block.start:
        return _Found(code, Rule.EARLIER_BLOCK)
    if not block.closed:
        return _Found(code, Rule.UNCLOSED_BLOCK)
    return _Found(code, Rule.NESTED_FENCES if "\n```" in block.code else Rule.LAST_BLOCK)


def _read_open(block: Block) -> Module:
    module = read_module(block.code)
    if module.is_model:
        return module
    bare = read_module(block.code.rstrip().removesuffix("```"))
    return bare if bare.is_model else _before_prose(bare) or module


def _unfenced(text: str) -> _Found:
    model = last_model_offset(text)
    if model < 0:
        return _Found()
    starts = [match.start() for match in _IMPORTS.finditer(text, 0, model)]
    patience = 4 * len(text) + 100_000
    for start in dict.fromkeys([0, *starts[: UNFENCED_STARTS // 2], *starts[-UNFENCED_STARTS // 2 :]]):
        code = text[start:]
        module = read_module(code)
        if not module.is_model:
            module = _before_prose(module) or module
        if module.is_model:
            return _Found(module.code, Rule.UNFENCED)
        patience -= len(code)
        if patience < 0:
            break
    return _broken("text", module)


def _before_prose(broken: Module) -> Module | None:
    """The module before the paragraph at which parsing stopped; None when it stopped at something else.

    A statement that was cut off must not be mistaken for prose, or half a module would pass for a whole one.
    """
    module, lines = broken, broken.code.split("\n")
    for _ in range(PARAGRAPHS_BEHIND):
        line = min(module.flaw_line, len(lines)) - 1
        while line > 0 and lines[line - 1][:1].strip():
            line -= 1
        is_ruler = line > 0 and lines[line].strip() and not lines[line].strip(" -*_=")
        if line < 1 or not (is_ruler or _PROSE.match(lines[line])):
            return None
        lines = lines[:line]
        module = read_module("\n".join(lines))
        if module.is_model:
            return module
    return None


def _in_json(text: str) -> _Found | None:
    stripped = text.strip()
    if stripped.startswith("```json") and stripped.endswith("```"):
        stripped = stripped.removeprefix("```json").removesuffix("```").strip()
    if not stripped or stripped[0] not in "{[" or not stripped.endswith(("}", "]")):
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    for string in reversed([string for string in _strings(value) if mentions_model(string)]):
        blocks = find_blocks(string)
        found = _in_blocks(blocks, "itself") if blocks else _unfenced(string)
        if found.code:
            return _Found(found.code, Rule.JSON)
    return None


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(string):
                yield string
            case dict(fields):
                waiting += reversed(fields.values())
            case list(items):
                waiting += reversed(items)


def _code(found: _Found, notes: list[str], *, cut: bool) -> Extraction:
    # A module may end in a continued blank line: without that line it would not parse.
    code = found.code.strip("\n").rstrip().rstrip("\\ \t\n") + "\n"
    more = ("the reply was cut at its length limit, after this code",) if cut else ()
    return Extraction(outcome=ExtractionOutcome.CODE, code=code, rule=found.rule, notes=(*notes, *more))


def _why_not(parts: _Parts, end: _End, found: _Found, thought_apart: bool) -> tuple[ExtractionOutcome, Rule]:
    answer = parts.answers[0].strip()
    if end == "refused":
        return ExtractionOutcome.NO_CODE, Rule.REFUSED
    if end == "cut":
        return ExtractionOutcome.TRUNCATED, Rule.LENGTH
    if end == "unknown" and (parts.open_reasoning or (not answer and (thought_apart or parts.reasoning))):
        return ExtractionOutcome.TRUNCATED, Rule.IN_REASONING
    if found.open_block:
        return ExtractionOutcome.TRUNCATED, Rule.IN_BLOCK
    if not answer:
        return ExtractionOutcome.NO_CODE, Rule.EMPTY
    if found.rule is Rule.SYNTAX_ERROR:
        return ExtractionOutcome.NO_CODE, Rule.SYNTAX_ERROR
    if end == "unknown" and answer[-1] not in _SENTENCE_ENDS:
        return ExtractionOutcome.TRUNCATED, Rule.MID_SENTENCE
    return ExtractionOutcome.NO_CODE, Rule.NO_MODEL_NEW
