"""The lines of a log, byte for byte, as they lie on disks: changes need a reason, and old lines must read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args

from kernelwright.agent.archive.log import Placed, parse
from kernelwright.agent.extraction.extract import ExtractionOutcome
from kernelwright.agent.records.attempt_log import (
    AnyLine,
    AssignmentDone,
    AttemptKey,
    CompletionRecorded,
    EvaluationRecorded,
    EvaluatorFailed,
    KernelKept,
    KernelRefused,
    Line,
    LogRepaired,
    ProblemSkipped,
    ProblemUsed,
    ProviderFailed,
    RunEnd,
    RunFinished,
    RunResumed,
    RunStarted,
    StoredMessage,
    TextRef,
)
from kernelwright.agent.records.messages import Sampling, Usage
from kernelwright.agent.records.score import Score
from kernelwright.agent.records.score_policy import ScorePolicy
from kernelwright.evaluator import Dtype, Math, Stage, Status

GOLDEN = Path(__file__).parent / "golden" / "attempts.jsonl"
AT = "2026-01-01T00:00:00.000+00:00"
LONG = TextRef(sha="a" * 64, size=60_000)
KEY = AttemptKey(
    run="20260101-000000-000-abcd",
    problem="level1/01_square_matmul",
    backend="cuda",
    model="some/model",
    strategy="refine",
    sample=1,
    turn=2,
)


def lines() -> list[Line]:
    """One of every kind, with every field set."""
    score = Score(
        status=Status.PASSED,
        stage=Stage.DECIDE,
        detail="2.00 times as fast as compile",
        problem_sha="b" * 64,
        candidate_sha="c" * 64,
        shapes="small",
        dtype=Dtype.BF16,
        math=Math.TF32,
        hardware="NVIDIA H200",
        speedup=2.0,
        low=1.9,
        high=2.1,
        against="compile",
        candidate_ms=0.125,
        track="own",
        speed_of_light=0.5,
        sanitized=True,
        contended=True,
        flaws=("ignores_input",),
        fatal=("contract",),
        seconds=3.25,
        baselines=("compile", "eager"),
        trials=7,
        sanitizers=True,
        is_seeded=True,
        sandbox="bubblewrap",
        torch="2.11.0",
        threads=16,
        evaluator="0.1.0",
        rules=1,
        settled=True,
        unfit="other work disturbed the measurement",
        cuda="13.0",
        driver="580.1",
        evaluator_sha="3" * 16,
    )
    completion = CompletionRecorded(
        at=AT,
        attempt=KEY.attempt,
        key=KEY,
        parents=("d" * 32,),
        exemplars=("c" * 12,),
        request_sha="e" * 64,
        prompt=(
            StoredMessage(role="system", content=LONG),
            StoredMessage(role="user", content="make it fast"),
        ),
        sampling=Sampling(
            temperature=0.7, top_p=0.95, max_tokens=8192, seed=3, stop=("END",), extra_body={"k": 1}
        ),
        reply=LONG,
        reasoning="short",
        finish_reason="stop",
        usage=Usage(prompt_tokens=1, completion_tokens=2, reasoning_tokens=3, cached_tokens=4),
        cost_usd=0.0125,
        cached=True,
        provider="openai",
        answered_by="some/model-2026",
        seconds=12.5,
        retries=1,
        response_id="chatcmpl-1",
        completed_at=AT,
        outcome=ExtractionOutcome.CODE,
        rule="last_block",
        notes=("a note",),
        code="class ModelNew: ...",
        license="MIT",
        origin="a handwritten recording",
    )
    started = RunStarted(
        at=AT,
        run=KEY.run,
        plan=LONG,
        settings="[run]\n",
        problems=(ProblemUsed(id=KEY.problem, sha="b" * 64, source=LONG),),
        versions={"kernelwright": "0.1.0"},
        git_commit="f" * 40 + "-dirty",
    )
    judged = EvaluationRecorded(
        at=AT,
        attempt=KEY.attempt,
        evaluation_sha="1" * 64,
        score=score,
        evaluation=LONG,
        reused_from="2" * 32,
        confirms=True,
    )
    return [
        started,
        RunResumed(at=AT, versions={"kernelwright": "0.1.0"}),
        completion,
        judged,
        ProviderFailed(at=AT, attempt=KEY.attempt, key=KEY, message="429 after 5 retries"),
        EvaluatorFailed(at=AT, attempt=KEY.attempt, message="no GPU"),
        ProblemSkipped(at=AT, problem=KEY.problem, message="no shapes named 'tiny'"),
        KernelKept(
            at=AT,
            attempt=KEY.attempt,
            kernel="cccccccccccc",
            folder="generated/cuda/01_square_matmul/cccccccccccc",
        ),
        KernelRefused(
            at=AT,
            attempt=KEY.attempt,
            message="it does not build with torch's own headers: main.cpp:1: error",
        ),
        AssignmentDone(
            at=AT, problem=KEY.problem, backend="cuda", model="some/model", strategy="refine", attempts=4
        ),
        RunFinished(at=AT, end=RunEnd.BUDGET, reason="budget of $1.00 reached"),
        LogRepaired(at=AT, size=17, moved_to="torn/byte-100-abcdef01.txt"),
    ]


def written() -> str:
    return "".join(line.model_dump_json() + "\n" for line in lines())


def test_lines_are_written_as_they_always_were() -> None:
    assert written() == GOLDEN.read_text(), f"if that is meant: python {Path(__file__).name} > {GOLDEN}"


def test_the_golden_lines_read_back_as_what_they_were() -> None:
    data = GOLDEN.read_bytes().splitlines(keepends=True)
    assert [parse(Placed(0, number, line), GOLDEN) for number, line in enumerate(data, 1)] == lines()


def test_a_line_from_before_a_score_had_a_policy_reads_as_one_of_unknown_policy() -> None:
    judged = json.loads(GOLDEN.read_bytes().splitlines()[3])
    old = set(ScorePolicy.model_fields) - {"hardware", "shapes", "dtype", "math", "passes"}
    judged["score"] = {name: value for name, value in judged["score"].items() if name not in old}
    line = parse(Placed(0, 1, json.dumps(judged).encode() + b"\n"), GOLDEN)
    assert isinstance(line, EvaluationRecorded)
    assert "no baselines known" in str(line.score.policy) and "trials not recorded" in str(line.score)


def test_every_kind_of_line_is_there() -> None:
    union, _ = get_args(AnyLine)
    assert {type(line) for line in lines()} == set(get_args(union))


def test_an_attempt_id_never_changes() -> None:
    assert KEY.attempt == lines()[2].model_dump()["attempt"] == "137b5e7c01078fa68700718949214fc0"


if __name__ == "__main__":
    sys.stdout.write(written())
