import pytest

from kernelwright.evaluator import Candidate
from kernelwright.evaluator.analysis.static_checks import screen


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


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("triton", "import triton\n@triton.autotune(configs=[])\n@triton.jit\ndef k(x): ..."),
        ("triton", "from triton import jit\n@jit\ndef k(x): ..."),
        ("tilelang", "@tilelang.jit(out_idx=[-1])\ndef k(n): ..."),
        ("cute", "from cutlass import cute\n@cute.kernel\ndef k(x): ..."),
    ],
)
def test_a_module_without_a_kernel_of_its_backend_is_remarked_and_not_refused(backend, kernel):
    model = "class ModelNew: pass"
    with_kernel = Candidate(source=f"{kernel}\n{model}", backend=backend)
    assert screen(with_kernel) == ()
    (finding,) = screen(Candidate(source=f"@torch.jit.script\ndef k(x): ...\n{model}", backend=backend))[-1:]
    assert (finding.rule, finding.fatal) == ("no_kernel", False)
    assert screen(Candidate(source=model, backend="cuda")) == ()


def test_a_decorator_however_long_is_read():
    # Half of what the parser takes, and more than can be unparsed.
    chain = ".".join("a" * 450)
    source = f"@{chain}\ndef k(x): ...\n@{chain}.jit\ndef l(x): ...\nclass ModelNew: pass"
    assert screen(Candidate(source=source, backend="triton")) == ()


def test_a_source_too_large_to_be_sent_is_refused():
    source = f"class ModelNew: pass  # {chr(1) * (5 << 20)}"
    assert fatal(source) == ["size"]


def test_any_number_of_alarming_lines_earns_only_so_many_remarks():
    source = "import socket\n" * 20_000 + "class ModelNew: pass"
    assert len(screen(Candidate(source=source, backend="cpp"))) == 50


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("os.system('ls')", "subprocess"),
        ("os.popen('ls')", "subprocess"),
        ("import requests, urllib", "network"),
        ("setattr(torch, 'mm', f)", "patching"),
        ("time.perf_counter = f", "patching"),
        ("sys._getframe()", "frames"),
        ("gc.get_objects()", "frames"),
        ("torch.compile(f)", "compiler"),
        ("seen[x.data_ptr()] = y", "data_ptr_key"),
    ],
)
def test_every_alarming_line_is_remarked(line, rule):
    (finding,) = screen(Candidate(source=f"def f(): ...\n{line}\nclass ModelNew: pass", backend="cpp"))
    assert (finding.rule, finding.line) == (rule, 2)
