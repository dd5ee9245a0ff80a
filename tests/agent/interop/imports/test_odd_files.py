"""Files as they come from elsewhere: damaged in places, laid out anyhow, with values of any kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.agent.archive import Archive
from kernelwright.agent.interop.imports import UnreadableImport, read_replies
from kernelwright.agent.interop.imports.reply_recorder import ReplyDefaults, record_replies
from kernelwright.agent.records.messages import Usage


def chat(text: str = "hello", **fields: object) -> dict[str, object]:
    return {"model": "m", "choices": [{"message": {"content": text}, "finish_reason": "stop"}], **fields}


def write(folder: Path, text: str, name: str = "replies.jsonl") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085"])
def test_a_line_may_hold_what_unicode_calls_the_end_of_one(tmp_path: Path, mark: str) -> None:
    file = write(tmp_path, json.dumps(chat(f"a{mark}b"), ensure_ascii=False) + "\n")
    assert [reply.text for reply in read_replies(file)] == [f"a{mark}b"]


@pytest.mark.parametrize(
    "bad",
    [
        {"custom_id": "a", "response": {"status_code": 400, "body": {"error": {"message": "too\nlong"}}}},
        {"custom_id": "a", "response": None, "error": {"code": "expired", "message": "too\nlong"}},
    ],
)
def test_a_failed_request_costs_only_itself(tmp_path: Path, bad: object) -> None:
    file = write(tmp_path, f"{json.dumps(bad)}\n{json.dumps(chat())}\n")
    skipped: list[str] = []
    assert [reply.origin for reply in read_replies(file, skipped.append)] == [f"{file}:2"]
    (why,) = skipped
    assert why.startswith(f"{file}:1 is of a request that failed")
    assert "too long" in why


@pytest.mark.parametrize("bad", ['{"torn', "7", '{"a": 1}', "[" * 100_000, '{"n": ' + "9" * 5000 + "}"])
def test_a_damaged_line_costs_only_itself(tmp_path: Path, bad: str) -> None:
    file = write(tmp_path, f"{json.dumps(chat())}\n{bad}\n{json.dumps(chat('two'))}\n")
    skipped: list[str] = []
    assert [reply.text for reply in read_replies(file, skipped.append)] == ["hello", "two"]
    assert len(skipped) == 1
    assert skipped[0].startswith(f"{file}:2 ")


def test_an_unreadable_candidate_of_a_run_folder_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "level_1_problem_1_sample_0_kernel.py").write_bytes(b"\xff\xfe")
    (tmp_path / "level_1_problem_2_sample_0_kernel.py").mkdir()
    (tmp_path / "level_1_problem_3_sample_0_kernel.py").write_text("class ModelNew: ...\n")
    skipped: list[str] = []
    assert [reply.problem for reply in read_replies(tmp_path, skipped.append)] == ["level1/3"]
    assert len(skipped) == 2


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_arrays_and_pretty_printed_objects_are_read(tmp_path: Path, name: str) -> None:
    array = write(tmp_path, json.dumps([chat("one"), chat("two", problem="softmax")], indent=1), name)
    assert [(reply.text, reply.problem) for reply in read_replies(array)] == [
        ("one", None),
        ("two", "softmax"),
    ]
    pretty = write(tmp_path, json.dumps(chat("three"), indent=2), name)
    assert [reply.text for reply in read_replies(pretty)] == ["three"]


def test_an_array_of_messages_is_one_conversation(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a", "reasoning": "r"}]
    (reply,) = read_replies(write(tmp_path, json.dumps(said), "talk.json"))
    assert (reply.text, reply.reasoning, [message.content for message in reply.messages]) == ("a", "r", ["u"])


def test_tokens_of_several_choices_count_once(tmp_path: Path) -> None:
    line = chat(usage={"prompt_tokens": 10, "completion_tokens": 100})
    line["choices"] = [{"message": {"content": text}} for text in "abc"]
    usages = [reply.usage for reply in read_replies(write(tmp_path, json.dumps(line)))]
    assert usages == [Usage(prompt_tokens=10, completion_tokens=100), Usage(), Usage()]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"level": 1, "problem_id": 3}, "level1/3"),
        ({"level": "level2", "problem_id": 7, "custom_id": "r-1"}, "level2/7"),
        ({"metadata": {"level": 1, "problem_id": 3}}, "level1/3"),
        ({"problem_id": 3}, "3"),
    ],
)
def test_a_problem_may_be_told_by_its_number(tmp_path: Path, fields: dict[str, object], problem: str) -> None:
    (reply,) = read_replies(write(tmp_path, json.dumps(chat(**fields))))
    assert reply.problem == problem


@pytest.mark.parametrize("created", [2**40 - 1, 10**30, -1, 0, float("inf"), float("nan"), "soon"])
def test_a_time_that_is_none_is_left_away(tmp_path: Path, created: object) -> None:
    (reply,) = read_replies(write(tmp_path, json.dumps(chat(created=created))))
    assert reply.generated_at is None


def test_a_header_may_say_any_number(tmp_path: Path) -> None:
    (reply,) = read_replies(write(tmp_path, f"# Tokens used: {'9' * 5000}\n\nhello", "x.txt"))
    assert (reply.text, reply.usage) == ("hello", Usage())


@pytest.mark.parametrize(("name", "text"), [("x.jsonl", ""), ("x.jsonl", "\n\n"), ("x.json", "[]")])
def test_a_file_without_a_reply_makes_no_run(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UnreadableImport, match="holds no reply"):
        list(read_replies(write(tmp_path, text, name)))
    with pytest.raises(UnreadableImport, match="no reply"):
        record_replies(Archive(tmp_path / "runs"), [], ReplyDefaults(problems={}))
    assert not (tmp_path / "runs").exists()


NAMES = st.sampled_from(
    [
        *("model", "problem", "problem_id", "level", "choices", "message", "messages", "content", "role"),
        *("response", "body", "request", "id", "created", "finish_reason", "text", "reasoning", "metadata"),
        *("completion_tokens", "custom_id", "error", "status_code", "completion", "backend", "prompt"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["assistant", "user", "cuda", "\ud800", "a\0b", "\x1b[31m", "```python\nx", ""]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5)
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.dictionaries(NAMES, VALUES, max_size=6))
def test_anything_at_all_is_recorded_or_left_out(tmp_path: Path, value: dict[str, object]) -> None:
    file = write(tmp_path, f"{json.dumps(chat('sound'))}\n{json.dumps(value)}\n")
    archive = Archive(tmp_path / "runs")
    log, taken = record_replies(archive, list(read_replies(file)), ReplyDefaults(problems={}))
    log.close()
    assert [archive.reply(attempt.completion) for attempt in archive.attempts(log.run)] == [
        entry.reply.text for entry in taken
    ]
