"""Replies as models write them, and the one candidate in each."""

from __future__ import annotations

import ast
import json

import pytest

from kernelwright.agent.extraction.code_fences import find_blocks
from kernelwright.agent.extraction.extract import Extraction, ExtractionOutcome, Rule, extract
from kernelwright.evaluator import Status

FINAL = """import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 2
"""
DRAFT = FINAL.replace("+ 2", "+ 1")
KERNEL = """__global__ void add(float* y) { y[threadIdx.x] += 1.0f; }
"""


def fenced(code: str, language: str = "python", fence: str = "```") -> str:
    return f"{fence}{language}\n{code}{fence}\n"


def found(text: str, finish_reason: str | None = "stop", reasoning: str = "") -> Extraction:
    extraction = extract(text, finish_reason=finish_reason, reasoning=reasoning)
    assert (extraction.outcome is ExtractionOutcome.CODE) == bool(extraction.code)
    return extraction


def test_one_block_is_the_candidate() -> None:
    extraction = found(f"Here it is.\n\n{fenced(FINAL)}\nIt adds two.")
    assert extraction.code == FINAL
    assert extraction.rule is Rule.LAST_BLOCK
    assert extraction.status is None


def test_the_last_of_several_complete_blocks_wins() -> None:
    extraction = found(f"{fenced(DRAFT)}\nWait, that adds one.\n\n{fenced(FINAL)}")
    assert extraction.code == FINAL
    assert extraction.rule is Rule.LAST_BLOCK


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<think>\n", "\n</think>\n\n"),
        ("", "\n</think>\n\n"),
        ("<thinking>", "</thinking>\n"),
        ("<reasoning>\n", "</reasoning>\n"),
        ("[THINK]", "[/THINK]\n"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ],
)
def test_only_what_follows_the_reasoning_counts(begin: str, end: str) -> None:
    assert found(f"{begin}First idea:\n{fenced(DRAFT)}Done.{end}{fenced(FINAL)}", None).code == FINAL
    drafts_only = extract(f"{begin}First idea:\n{fenced(DRAFT)}Done.{end}Sorry, no.", finish_reason="stop")
    assert drafts_only.outcome is ExtractionOutcome.NO_CODE


def test_a_closing_tag_inside_the_code_does_not_hide_it() -> None:
    code = FINAL.replace("import torch\n", "import torch  # what </think> meant\n", 1)
    assert found(f"<think>hm</think>\n{fenced(code)}").code == code


def test_reasoning_that_never_ends_is_truncated() -> None:
    for finish_reason in (None, "unknown", "length"):
        extraction = found(f"<think>\nPerhaps:\n{fenced(DRAFT)}but then", finish_reason)
        assert extraction.outcome is ExtractionOutcome.TRUNCATED
        assert extraction.status is Status.TRUNCATED
    assert found("<think>\nPerhaps", None).rule is Rule.IN_REASONING
    assert found("<think>\nPerhaps", "length").rule is Rule.LENGTH


def test_a_model_that_forgot_to_end_its_reasoning_is_understood() -> None:
    extraction = found(f"<think>\n{fenced(DRAFT)}No:\n{fenced(FINAL)}", "stop")
    assert (extraction.code, extraction.rule) == (FINAL, Rule.REASONING)


def test_an_empty_reply_with_code_in_the_reasoning_that_came_apart_is_understood() -> None:
    extraction = found("", "stop", reasoning=f"{fenced(DRAFT)}No:\n{fenced(FINAL)}")
    assert (extraction.code, extraction.rule) == (FINAL, Rule.REASONING)
    assert found("", "length", reasoning=fenced(FINAL)).outcome is ExtractionOutcome.TRUNCATED
    assert found("", None, reasoning=fenced(FINAL)).rule is Rule.IN_REASONING


def test_reasoning_that_came_apart_is_not_searched_beside_a_reply() -> None:
    assert found("I could not do it.", "stop", reasoning=fenced(DRAFT)).rule is Rule.NO_MODEL_NEW


def test_a_block_cut_by_the_length_limit_gives_no_code() -> None:
    for end in (len(FINAL) // 2, len(FINAL)):
        extraction = found(f"Here:\n```python\n{FINAL[:end]}", "length")
        assert (extraction.outcome, extraction.rule) == (ExtractionOutcome.TRUNCATED, Rule.LENGTH)


def test_a_complete_block_before_the_cut_is_kept() -> None:
    extraction = found(f"{fenced(FINAL)}\nThis kernel is fast bec", "length")
    assert (extraction.code, extraction.rule) == (FINAL, Rule.LAST_BLOCK)
    assert "cut at its length limit" in extraction.notes[0]
    again = found(f"{fenced(FINAL)}\nEven better:\n```python\n{DRAFT[:60]}", "length")
    assert (again.code, again.rule) == (FINAL, Rule.EARLIER_BLOCK) or again.rule is Rule.LAST_BLOCK


def test_a_missing_closing_fence_is_forgiven() -> None:
    for finish_reason in ("stop", None):
        extraction = found(f"{fenced(DRAFT)}\nFinally:\n```python\n{FINAL}", finish_reason)
        assert (extraction.code, extraction.rule) == (FINAL, Rule.UNCLOSED_BLOCK)
    assert found(f"```python\n{FINAL.rstrip()}```").code == FINAL
    assert found(f"```python\n{FINAL}\nThis module adds two to it.\nIt's fast.").code == FINAL


def test_a_module_cut_in_a_statement_is_never_completed() -> None:
    for end in range(len(FINAL) - 12, len(FINAL) - 1):
        cut = FINAL[:end]
        extraction = found(f"```python\n{cut}", None)
        assert extraction.code in ("", cut.rstrip() + "\n")
    assert found(f"```python\n{FINAL[:-5].rstrip()} +", None).rule is Rule.IN_BLOCK


def test_a_block_begun_before_another_was_closed() -> None:
    assert found(f"```python\n{DRAFT}\nNo, wait:\n\n{fenced(FINAL)}").code == FINAL


def test_fences_inside_strings_do_not_end_a_block() -> None:
    documented = FINAL.replace(
        "import torch\n", '"""Usage:\n\n```python\nmodel(x)\n```\n"""\nimport torch\n', 1
    )
    extraction = found(f"```python\n{documented}```\nDone.")
    assert (extraction.code, extraction.rule) == (documented, Rule.NESTED_FENCES)


def test_a_string_left_open_in_a_draft_does_not_swallow_the_answer() -> None:
    broken = DRAFT + 'source = """\nvoid f();\n'
    good = FINAL.replace("class", 'source = """\nvoid g();\n"""\n\n\nclass', 1)
    assert found(f"{fenced(broken)}\nThe string was not closed. Now:\n\n{fenced(good)}").code == good


def test_no_fence_at_all() -> None:
    assert found(FINAL).rule is Rule.UNFENCED
    assert found(f"Sure, here is the code.\n\n{FINAL}").code == FINAL
    assert found(f"Sure.\n\n{FINAL}\n\nThis adds two to the result.\nIt's right.").code == FINAL
    assert found(f"import is needed first.\n\nimport torch\n\n{FINAL}").code.endswith(FINAL)
    assert found(FINAL, "length").outcome is ExtractionOutcome.TRUNCATED


def test_header_and_remains_of_the_prompt_before_the_reply() -> None:
    header = (
        "# Problem: 7_Something\n# Model: some/model\n# Generated: 20250101_000000\n# Tokens used: 4096\n\n"
    )
    remains = "Your code must be fast. Write ModelNew.\n\n\nOkay, let me think about this.\n"
    assert found(f"{header}{remains}{fenced(DRAFT)}Hm.\n</think>\n\n{fenced(FINAL)}", None).code == FINAL
    cut = found(f"{header}<think>\n{remains}            #   i =", None)
    assert (cut.outcome, cut.rule) == (ExtractionOutcome.TRUNCATED, Rule.IN_REASONING)


def test_a_reply_that_ends_within_a_sentence_was_cut() -> None:
    extraction = found("Okay, first the matmul. Then apply the", None)
    assert (extraction.outcome, extraction.rule) == (ExtractionOutcome.TRUNCATED, Rule.MID_SENTENCE)
    assert found("I cannot help with that.", None).outcome is ExtractionOutcome.NO_CODE
    assert found("Okay, first the matmul. Then apply the", "stop").outcome is ExtractionOutcome.NO_CODE


def test_kernel_and_module_in_blocks_of_their_own_are_put_together() -> None:
    module = """import torch
from torch.utils.cpp_extension import load_inline

built = load_inline("b", cpp_sources="void add();", cuda_sources=kernel_source, functions=["add"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.add(x)
"""
    extraction = found(f"The kernel:\n\n{fenced(KERNEL, 'cuda')}\nThe module:\n\n{fenced(module)}")
    assert extraction.rule is Rule.MERGED_BLOCKS
    assert extraction.code == f"kernel_source = r'''\n{KERNEL}'''\n\n{module}"


def test_python_split_over_blocks_is_put_together() -> None:
    head = "import torch\n\nSCALE = 2\n"
    tail = "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * SCALE\n"
    extraction = found(f"Setup:\n{fenced(head)}\nModel:\n{fenced(tail)}")
    assert (extraction.code, extraction.rule) == (f"{head}\n{tail}", Rule.MERGED_BLOCKS)


def test_a_later_excerpt_does_not_replace_the_module() -> None:
    excerpt = "class ModelNew(nn.Module):\n    def forward(self, x):\n        ...\n"
    extraction = found(f"{fenced(FINAL)}\nThe idea in short:\n{fenced(excerpt)}")
    assert (extraction.code, extraction.rule) == (FINAL, Rule.EARLIER_BLOCK)


def test_a_corrected_class_alone_replaces_the_one_in_the_module() -> None:
    corrected = FINAL[FINAL.index("class") :]
    extraction = found(f"{fenced(DRAFT)}\nReplace the class by:\n{fenced(corrected)}")
    assert extraction.rule is Rule.MERGED_BLOCKS
    namespace_order = extraction.code.index("+ 1") < extraction.code.index("+ 2")
    assert namespace_order


def test_a_whole_module_keeps_its_own_mistakes() -> None:
    forgetful = FINAL.replace("from torch import nn\n", "").replace("nn.Module", "nn_module")
    draft = DRAFT.replace("class", "nn_module = nn.Module\n\n\nclass", 1)
    assert found(f"{fenced(draft)}\nNow:\n{fenced(forgetful)}").code == forgetful


def test_a_broken_final_block_yields_to_a_sound_one() -> None:
    extraction = found(f"{fenced(FINAL)}\nOr:\n{fenced(DRAFT.replace('return', 'retrun'))}")
    assert (extraction.code, extraction.rule) == (FINAL, Rule.EARLIER_BLOCK)


def test_a_syntax_error_is_named_with_its_line() -> None:
    extraction = found(fenced(FINAL.replace("return", "retrun")))
    assert (extraction.outcome, extraction.rule) == (ExtractionOutcome.NO_CODE, Rule.SYNTAX_ERROR)
    assert extraction.status is Status.NO_CODE
    assert "line 7" in extraction.notes[0]


def test_windows_newlines_tildes_lists_and_quotations() -> None:
    assert found(fenced(FINAL).replace("\n", "\r\n")).code == FINAL
    assert found(fenced(FINAL, fence="~~~")).code == FINAL
    assert found(fenced(FINAL, language="Python title=kernel.py", fence="````")).code == FINAL
    indented = "".join(f"   {line}" for line in fenced(FINAL).splitlines(keepends=True))
    assert found(f"1. The module:\n\n{indented}\n2. Done.").code == FINAL
    assert found("".join(f"> {line}" for line in fenced(FINAL).splitlines(keepends=True))).code == FINAL
    assert found(f"The code is: {fenced(FINAL)}").code == FINAL


def test_code_wrapped_in_json() -> None:
    wrapped = json.dumps({"plan": "add", "code": FINAL, "more": [1, {"note": None}]})
    for text in (wrapped, fenced(wrapped, "json"), json.dumps([{"code": fenced(FINAL)}])):
        extraction = found(text)
        assert (extraction.code, extraction.rule) == (FINAL, Rule.JSON)


def test_bytes_that_no_source_can_hold_are_taken_out() -> None:
    extraction = found(fenced(FINAL.replace("relu", "re\0lu") + "# \ud83d\n"))
    assert extraction.code == FINAL + "# ?\n"
    assert len(extraction.notes) == 2


def test_model_new_must_be_a_class_of_the_module() -> None:
    for code in (
        "ModelNew = 3\n",
        "def f():\n    class ModelNew:\n        pass\n",
        '"""\nclass ModelNew:\n    pass\n"""\n',
        "class ModelNewer:\n    pass\n",
        "class Model:\n    pass\n",
    ):
        assert found(fenced(code)).rule is Rule.NO_MODEL_NEW
    guarded = "try:\n    import triton\nexcept ImportError:\n    class ModelNew: pass\n"
    assert found(fenced(guarded)).code == guarded


def test_a_refusal_and_an_empty_reply_are_no_code() -> None:
    assert found("I can't", "content_filter").rule is Rule.REFUSED
    assert found("", "stop").rule is Rule.EMPTY
    assert found(" \n", None).rule is Rule.EMPTY
    assert found(f"{fenced(FINAL)}more", "content_filter").code == FINAL


def test_a_module_that_ends_in_a_continued_blank_line_still_parses() -> None:
    found = extract("```python\nclass ModelNew:\n    pass\n\\\n\n```\n", finish_reason="stop")
    assert found.code is not None
    ast.parse(found.code)


def test_one_c_block_is_the_source_that_a_module_lacks() -> None:
    module = """```python
import torch
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="e", cpp_sources="", cuda_sources=KERNEL, functions=["f"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.f(x)
```"""
    done = extract(f"The kernel:\n\n```cpp\nint answer = 42;\n```\n\n{module}\n", finish_reason="stop")
    assert done.code is not None and "KERNEL = r'''\nint answer = 42;" in done.code
    two = extract(f"```cpp\nint a;\n```\n\n```cpp\nint b;\n```\n\n{module}\n", finish_reason="stop")
    assert two.code is None or "int a;" not in two.code


def test_a_fence_behind_other_text_opens_nothing_and_hides_nothing() -> None:
    text = "Use ``` for code.\n```python\nx = 1\n```\nand ``` again\n```python\ny = 2\n```\n"
    assert [block.code for block in find_blocks(text)] == ["x = 1\n", "y = 2\n"]
