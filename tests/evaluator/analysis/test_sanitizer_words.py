"""Words by which a program can hide from sanitizers: where they count, and where they are only talk."""

import pytest

from kernelwright.evaluator import Candidate
from kernelwright.evaluator.analysis.sanitizer_words import words_of_code, words_of_module
from kernelwright.evaluator.analysis.static_checks import screen


@pytest.mark.parametrize(
    "code",
    [
        "#ifdef __SANITIZE_ADDRESS__",
        "#if defined(__SANITIZE_THREAD__)",
        "#if __has_feature(address_sanitizer)",
        '__attribute__((no_sanitize("address"))) void f();',
        "[[gnu::no_sanitize_address]] void f();",
        "__attribute__((__no_sanitize_undefined__))",
        'getenv("ASAN_OPTIONS")',
        'extern "C" void __asan_init() __attribute__((weak));',
        "if (__lsan_do_leak_check) return;",
        'dlsym(0, "__tsan_init")',
        'getenv("CUDA_INJECTION64_PATH")',
        'getenv("NV_SANITIZER_INJECTION_PORT_BASE")',
        'fopen("/proc/self/maps", "r")',
        'open("/proc/thread-self/environ", 0)',
        "dl_iterate_phdr(callback, 0);",
    ],
)
def test_a_word_counts_in_code_and_in_strings_of_a_module(code):
    assert list(words_of_code(code))
    assert words_of_module(f"SOURCE = {code!r}")


@pytest.mark.parametrize(
    "source",
    [
        '"""Clean under compute-sanitizer; no __SANITIZE_ADDRESS__ here."""',
        "x = 1  # ASAN_OPTIONS is not needed",
        "SOURCE = '// __SANITIZE_ADDRESS__ is not asked for\\nint x;'",
        "SOURCE = '/* no\\n no_sanitize */ int x;'",
        "def sanitize(text): return text",
        "SOURCE = 'int sanitized = 1; #if __has_feature(cxx_rvalue_references)'",
        "open('/proc/cpuinfo')",
        "broken(",
    ],
)
def test_comments_docstrings_and_other_names_do_not_count(source):
    assert words_of_module(source) == []


def test_lines_are_those_of_the_module_and_a_string_hides_no_comment_sign():
    code = 'const char* where = "http://no";  // no_sanitize\n__asan_init();\n'
    source = f'import os\n\nSOURCE = """\n{code}"""\nx.__lsan_enable()\n'
    assert words_of_module(source) == [(5, "__asan_init"), (7, "__lsan_enable")]


def test_screening_names_word_and_line_and_refuses_nothing():
    source = 'SOURCE = """\n#ifdef __SANITIZE_ADDRESS__\n"""\nclass ModelNew: pass\n'
    (finding,) = screen(Candidate(source=source, backend="cpp"))
    assert (finding.rule, finding.line, finding.fatal) == ("sanitizer", 2, False)
    assert "__SANITIZE_ADDRESS__" in finding.message
