"""Replies as people bring them: headers, thoughts, drafts and cuts; what each becomes is pinned here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.extraction.extract import ExtractionOutcome
from kernelwright.agent.interop.imports import ImportedReply, read_replies
from kernelwright.agent.interop.imports.reply_recorder import RecordedReply, ReplyDefaults, record_replies
from kernelwright.evaluator import Problem, problem_from_source

HEADER = """\
# Problem: 9_Softmax
# Model: some-lab/thinker-8b
# Generated: 20250102_030405
# Tokens used: 4096

"""
MODULE = """import torch
from torch.utils.cpp_extension import load_inline

kernels = load_inline(name="kernels", cpp_sources="", cuda_sources="__global__ void scale() {{}}")


class ModelNew(torch.nn.Module):
    mark = "{mark}"

    def forward(self, x):
        return kernels.scale(x)
"""
DRAFT, FINAL = MODULE.format(mark="draft"), MODULE.format(mark="final")

THOUGHTS = (
    "<think>\nThe reference multiplies two matrices.\n\n```python\n" + DRAFT + "```\n\nBut wait, the strides."
)
REPLIES = {
    "cut while it thought": THOUGHTS,
    "thought, then answered": f"{THOUGHTS}\n</think>\n\nHere it is:\n\n```python\n{FINAL}```\n\nFaster.\n",
    "a draft, then the answer": f"First:\n\n```python\n{DRAFT}```\n\nBetter:\n\n```python\n{FINAL}```\n",
    "its beginning lost": f"so the strides are right.\n</think>\n```python\n{FINAL}```\n",
    "cut inside its code": f"{THOUGHTS}\n</think>\n\n```python\n{FINAL[: len(FINAL) // 2]}",
    "only words": "<think>\nHard.\n</think>\n\nI would tile the loop and use shared memory.\n",
}
BECOMES = {
    "cut while it thought": ExtractionOutcome.TRUNCATED,
    "thought, then answered": ExtractionOutcome.CODE,
    "a draft, then the answer": ExtractionOutcome.CODE,
    "its beginning lost": ExtractionOutcome.CODE,
    "cut inside its code": ExtractionOutcome.TRUNCATED,
    "only words": ExtractionOutcome.NO_CODE,
}


def problems(*names: str) -> dict[str, Problem]:
    source = "class Model: ...\ndef get_inputs(): return []\n"
    return {name: problem_from_source(source, name) for name in names}


KNOWN = problems("level1/06_large_k_matmul", "level1/09_softmax")


def take(folder: Path, replies: list[ImportedReply], **changes: object) -> list[RecordedReply]:
    archive = Archive(folder / "runs")
    log, taken = record_replies(archive, replies, ReplyDefaults(**{"problems": KNOWN, **changes}))
    log.close()
    return taken


@pytest.mark.parametrize("kind", list(REPLIES))
def test_what_a_reply_becomes(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "reply.txt"
    file.write_text(HEADER + REPLIES[kind])
    (entry,) = take(tmp_path, list(read_replies(file)))
    assert entry.extraction.outcome is BECOMES[kind]
    if BECOMES[kind] is ExtractionOutcome.CODE:
        assert entry.extraction.code.strip() == FINAL.strip()
    (attempt,) = Archive(tmp_path / "runs").attempts()
    line = attempt.completion
    assert (attempt.key.problem, attempt.key.model) == ("level1/09_softmax", "some-lab/thinker-8b")
    assert attempt.key.backend == "cuda"
    assert (line.usage.completion_tokens, line.completed_at) == (4096, "2025-01-02T03:04:05+00:00")
    assert line.origin == str(file)
    assert Archive(tmp_path / "runs").reply(line) == REPLIES[kind]


def reply_for(problem: str | None) -> ImportedReply:
    return ImportedReply(origin="x", text="hello", problem=problem)


@pytest.mark.parametrize(
    ("called", "how"), [("9_Softmax", "name"), ("level1/9", "asked"), ("6_Matmul", "asked"), (None, "asked")]
)
def test_one_problem_takes_every_reply_and_says_so(tmp_path: Path, called: str | None, how: str) -> None:
    only = {"level1/09_softmax": KNOWN["level1/09_softmax"]}
    (entry,) = take(tmp_path, [reply_for(called)], problems=only, is_numbered_alike=False)
    assert entry.match is not None
    assert (entry.match.problem, entry.match.how) == ("level1/09_softmax", how)
    assert entry.match.certain == (how == "name")


def test_a_number_means_a_problem_of_its_own_collection_only(tmp_path: Path) -> None:
    (alike,) = take(tmp_path, [reply_for("level1/9")])
    (other,) = take(tmp_path, [reply_for("level1/9")], is_numbered_alike=False)
    assert alike.match is not None
    assert (alike.match.how, other.match) == ("number", None)


def test_a_licence_is_kept_with_every_reply(tmp_path: Path) -> None:
    take(tmp_path, [reply_for("9_Softmax")], license="MIT")
    (attempt,) = Archive(tmp_path / "runs").attempts()
    assert attempt.completion.license == "MIT"
