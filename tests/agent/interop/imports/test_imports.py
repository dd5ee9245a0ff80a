"""Replies made elsewhere keep everything their files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright.agent.interop.imports import UnreadableImport, read_replies
from kernelwright.agent.interop.imports.reply_recorder import match_problem
from kernelwright.agent.records.messages import Message, Usage

KNOWN = ("level1/01_square_matmul", "level1/06_large_k_matmul", "level1/09_softmax", "level2/03_gemm_softmax")


def test_a_raw_reply_keeps_its_header_apart_from_its_text(tmp_path: Path) -> None:
    file = tmp_path / "reply.txt"
    file.write_text(
        "# Problem: 9_Softmax\n# Model: a/b\n# Generated: 20250529_230123\n# Tokens used: 4,096\n\nhello\n"
    )
    (reply,) = read_replies(file)
    assert (reply.problem, reply.model, reply.text) == ("9_Softmax", "a/b", "hello\n")
    assert reply.generated_at == "2025-05-29T23:01:23+00:00"
    assert reply.usage == Usage(completion_tokens=4096)


def test_a_raw_reply_without_header_is_taken_whole(tmp_path: Path) -> None:
    file = tmp_path / "reply.md"
    file.write_bytes("# A heading\r\n\r\ntext \u2028 more".encode())
    (reply,) = read_replies(file)
    assert reply.text == "# A heading\r\n\r\ntext \u2028 more"
    assert reply.problem is None


@pytest.mark.parametrize("wrap", ["plain", "pair", "batch"])
def test_chat_completions_are_read_in_every_wrapping(tmp_path: Path, wrap: str) -> None:
    response = {
        "id": "r1",
        "model": "m",
        "created": 1_750_000_000,
        "choices": [
            {"message": {"content": "one", "reasoning_content": "why"}, "finish_reason": "stop"},
            {"message": {"content": "two"}, "finish_reason": "length"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    }
    request = {"messages": [{"role": "user", "content": "please"}]}
    line: dict[str, object] = {
        "plain": response | {"problem": "softmax"} | request,
        "pair": {"request": request, "response": response, "problem": "softmax"},
        "batch": {
            "custom_id": "softmax",
            "body": request,
            "response": {"status_code": 200, "body": response},
        },
    }[wrap]
    file = tmp_path / "replies.jsonl"
    file.write_text(json.dumps(line) + "\n\n")
    one, two = read_replies(file)
    assert (one.text, one.reasoning, one.finish_reason) == ("one", "why", "stop")
    assert (two.text, two.finish_reason, two.model) == ("two", "length", "m")
    assert one.messages == (Message(role="user", content="please"),)
    assert one.problem == "softmax"
    assert one.usage == Usage(prompt_tokens=3, completion_tokens=5)
    assert one.origin == f"{file}:1"


def test_a_conversation_ends_with_the_reply(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ]
    file.write_text(json.dumps({"messages": messages}))
    (reply,) = read_replies(file)
    assert reply.text == "a"
    assert [message.role for message in reply.messages] == ["system", "user"]


def test_a_kernelbench_run_folder_is_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "my_run"
    folder.mkdir()
    for sample in (1, 0):
        (folder / f"level_1_problem_6_sample_{sample}_kernel.py").write_text(
            f"class ModelNew: x = {sample}\n"
        )
    (folder / "eval_results.json").write_text("{}")
    first, second = read_replies(folder)
    assert first.is_module
    assert (first.problem, first.model) == ("level1/6", "my_run")
    assert "x = 0" in first.text
    assert "x = 1" in second.text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl", b"{", "x.jsonl:1 is not JSON"),
        ("x.jsonl", b"7", "not a JSON object"),
        ("x.jsonl", b'{"a": 1}', "holds no reply"),
        ("x.txt", b"\xff\xfe", "not UTF-8"),
        ("missing/x.txt", None, "cannot read"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnreadableImport, match=words) as caught:
        list(read_replies(file))
    assert "\n" not in str(caught.value)


def test_a_folder_without_candidates_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImport, match="no KernelBench run folder"):
        list(read_replies(tmp_path))


@pytest.mark.parametrize(
    ("name", "problem", "how"),
    [
        ("level1/09_softmax", "level1/09_softmax", "name"),
        ("23_Softmax.py", "level1/09_softmax", "name"),
        ("6_Matmul_with_large_K_dimension_", "level1/06_large_k_matmul", "words"),
        ("level1/6", "level1/06_large_k_matmul", "number"),
    ],
)
def test_a_name_finds_its_problem_and_says_how(name: str, problem: str, how: str) -> None:
    match = match_problem(name, KNOWN)
    assert match is not None
    assert (match.problem, match.how, match.certain) == (problem, how, how == "name")


@pytest.mark.parametrize("name", ["", "level7/6", "conv_transposed", "99"])
def test_a_name_that_fits_nothing_matches_nothing(name: str) -> None:
    assert match_problem(name, KNOWN) is None
