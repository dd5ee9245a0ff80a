import pytest

from evaluator import Candidate
from evaluator.screening import screen


def fatal(source: str) -> list[str]:
    return [finding.rule for finding in screen(Candidate(source=source, backend="cpp")) if finding.fatal]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("class ModelNew(:\n", "syntax"),
        ("x = 1\0", "syntax"),
        ("x = '\ud800'", "syntax"),
        ("class Model: pass", "contract"),
        ("# class ModelNew", "contract"),
        ("(" * 5000, "syntax"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_reason(source, rule):
    assert fatal(source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "class ModelNew: pass",
        "if True:\n    class ModelNew: pass",
        "try:\n    import x\nexcept ImportError:\n    ModelNew = object",
        "from somewhere import Better as ModelNew",
        "def ModelNew(): ...",
    ],
)
def test_every_way_to_define_the_model_is_accepted(source):
    assert fatal(source) == []


def test_alarming_words_are_remarks_with_line_numbers_and_never_fatal():
    source = "import subprocess\n# eval exec socket\nclass ModelNew:\n    pass  # time.sleep\n"
    findings = screen(Candidate(source=source, backend="cpp"))
    assert [(finding.rule, finding.line, finding.fatal) for finding in findings] == [("subprocess", 1, False)]
