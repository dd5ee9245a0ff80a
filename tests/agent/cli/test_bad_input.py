"""Bad input: one clear line, the right exit code, no traceback, nothing lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from tests.agent.cli.conftest import Command

PLAIN = (
    "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n        return a @ b\n"
)
QUICK = ("--shapes", "small", "--no-time")


@pytest.fixture
def candidate(tmp_path: Path) -> str:
    """A file with a candidate nothing is wrong with."""
    file = tmp_path / "candidate.py"
    file.write_text(PLAIN)
    return str(file)


def one_line(result: Result) -> str:
    """The only line on standard error, with its prefix taken off."""
    assert "Traceback" not in result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if "replaying" not in line]
    assert len(lines) == 1, result.stderr
    return lines[0].removeprefix("kernelwright: ")


@pytest.mark.parametrize(
    ("problem", "content", "words"),
    [
        ("missing.py", None, "missing.py"),
        ("no_such_problem", None, "no problem, file or folder called 'no_such_problem'"),
        ("broken.py", b"def get_inputs(:\n", "broken is not valid Python"),
        ("empty.py", b"", "does not define Model"),
        ("other.py", b"class Model: ...\n", "does not define get_inputs"),
        ("binary.py", b"\xff\xfe\x00", "binary.py"),
        ("shapes.py", b"class Model: ...\ndef get_inputs(): ...\nSHAPES = f()\n", "SHAPES must be a literal"),
    ],
)
def test_a_problem_that_is_none(
    kernelwright: Command, tmp_path: Path, candidate: str, problem: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / problem).write_bytes(content)
    result = kernelwright("evaluate", "--problem", problem, candidate)
    assert result.exit_code == 2
    assert words in one_line(result)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--backend", "fortran"), "unknown backend 'fortran'; known: cpp, cuda"),
        (("--shapes", "gigantic"), "no shapes named 'gigantic'; known: small"),
        (("--device", "tpu"), "tpu"),
        (("--math", "fp23"), "--math: must be one of fp32, tf32, bf16, fp16, not 'fp23'"),
        (("--sandbox", "docker"), "--sandbox: must be one of bubblewrap, confined, none"),
        (("--baselines", "eager,magic"), "--baselines: must be one of eager, compile, not 'magic'"),
        (("--limit", "total_s"), "not NAME=VALUE"),
        (("--limit", "total_s=soon"), "--limit total_s: must be a number, not 'soon'"),
        (("--limit", "patience=3"), "no limit 'patience'; known: total_s"),
    ],
)
def test_a_policy_that_cannot_be(
    kernelwright: Command, candidate: str, arguments: tuple[str, ...], words: str
) -> None:
    result = kernelwright("evaluate", "--problem", "square_matmul", candidate, *arguments)
    assert result.exit_code == 2
    assert words in one_line(result)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read candidate"), (b"\xff\xfe", "not UTF-8"), (b"x" * (5 << 20), "larger than")],
)
def test_a_candidate_that_cannot_be_read(
    kernelwright: Command, tmp_path: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "c.py").write_bytes(content)
    result = kernelwright("evaluate", "--problem", "square_matmul", "c.py", *QUICK)
    assert result.exit_code == 2
    assert words in one_line(result)


@pytest.mark.parametrize("source", ["", "\n\n", "x = 1\n", "class ModelNew(:\n"])
def test_a_file_without_a_candidate_is_judged_and_does_not_pass(kernelwright: Command, source: str) -> None:
    result = kernelwright("evaluate", "--problem", "square_matmul", "-", *QUICK, stdin=source)
    assert result.exit_code == 1
    assert "REJECTED" in result.stdout
    assert result.stderr == ""


LIVE = ("square_matmul", "--base-url", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "which problems?"),
        (("nonsense",), "no problem, file or folder called 'nonsense'"),
        (("square_matmul", "--backend", "fortran"), "unknown backend 'fortran'"),
        (
            ("square_matmul", "--strategy", "sample", "--turns", "3"),
            "strategy sample: no setting 'options.turns'; .*known: options.samples",
        ),
        (("square_matmul", "--base-url", "http://127.0.0.1:9/v1"), "which model?"),
        (
            ("square_matmul", "--backend", "cpp", "--provider", "openai", "--model", "m"),
            "no key and no base URL",
        ),
        (("square_matmul", "--backend", "cpp", "--recordings", "nowhere"), "no folder of recordings"),
        (("square_matmul", "--base-url", "nonsense", "--model", "m"), "'nonsense' is no base URL"),
        (("square_matmul", "--max-time", "soon"), "'soon' is not a duration"),
        (
            (*LIVE, "-m", "gpt-5", "-m", "mine", "--max-cost", "1"),
            "no price is known for mine: .*--set 'prices = .*--max-tokens",
        ),
        (
            (*LIVE, "-m", "gpt-5", "--fallback", "base_url=http://h,model=yours", "--max-cost", "1"),
            "no price is known for yours",
        ),
        ((*LIVE, "-m", "mine", "--set", "problem_budget.cost_usd=1"), "no price is known for mine"),
        (
            (*LIVE, "-m", "m", "--set", "sampling.extra_body.n=4"),
            "one reply of a request is kept; .*--samples",
        ),
        ((*LIVE, "-m", "m", "--set", "sampling.extra_body.stream=false"), "every request has its own"),
        ((*LIVE, "-m", "m", "--set", "sampling.extra_body.seed=1"), "a setting for it, sampling.seed"),
        (
            (*LIVE, "-m", "m", "-s", "evolve", "-n", "4"),
            "no setting 'options.samples'; .*known: options.population, ",
        ),
        ((*LIVE, "-m", "m", "--set", "colour=1"), "no setting 'colour'; known: problems, backends"),
        (
            (*LIVE, "-m", "m", "--set", "sampling.temprature=1"),
            "no setting 'sampling.temprature'; did you mean sampling.temperature",
        ),
        (
            (*LIVE, "-m", "m", "--set", "evaluation.limits.total=9"),
            "no setting 'evaluation.limits.total'; did you mean evaluation.limits.total_s",
        ),
        (
            (*LIVE, "-m", "m", "--strategy", "best"),
            "--strategy: no strategy 'best'; known: evolve, refine, sample",
        ),
        ((*LIVE, "-m", "m", "--turns", "0"), "options.turns: must be at least 1, not 0"),
        ((*LIVE, "-m", "m", "--concurrency", "many"), "--concurrency: must be a whole number"),
        (
            (*LIVE, "-m", "m", "--provider", "telepathy"),
            "--provider: no provider 'telepathy'; known: mailbox, openai, ",
        ),
        ((*LIVE, "-m", "m", "--set", "batch_api=true"), "`kernelwright generate` asks in bulk"),
        ((*LIVE, "-m", "m", "--set", "prices=a toml"), "is not NAME = VALUE in TOML"),
        (("square_matmul", "--config", "nowhere.toml"), "cannot read settings"),
        (("--resume", "last"), "no run"),
        (("--resume", "20990101"), "no run"),
    ],
)
def test_a_run_that_cannot_begin(
    kernelwright: Command, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    result = kernelwright("run", *arguments)
    assert result.exit_code == 2
    assert re.search(words, one_line(result))
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_provider_nobody_knows_is_a_usage_error(kernelwright: Command) -> None:
    result = kernelwright("run", "square_matmul", "--provider", "telepathy")
    assert result.exit_code == 2
    assert "telepathy" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--base-url", "http://127.0.0.1:9/v1", "--model", "m"), "cannot reach http://127.0.0.1:9/v1"),
        (("--provider", "replay", "--model", "gpt-0"), "gpt-0"),
    ],
)
def test_an_endpoint_that_cannot_answer(
    kernelwright: Command, arguments: tuple[str, ...], words: str
) -> None:
    result = kernelwright("run", "square_matmul", "--backend", "cpp", "--turns", "1", *arguments)
    assert result.exit_code == 3
    assert "Traceback" not in result.output
    assert words in result.stderr


def run_outside(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with parts of the environment replaced."""
    return subprocess.run(
        [sys.executable, "-m", "kernelwright.agent.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )


def test_without_any_sandbox_nothing_is_judged(tmp_path: Path, candidate: str) -> None:
    (tmp_path / "bin").mkdir()
    done = run_outside(
        ["evaluate", "--problem", "square_matmul", "--sandbox", "bubblewrap", candidate, *QUICK],
        PATH=str(tmp_path / "bin"),
    )
    assert done.returncode == 3
    assert "bubblewrap" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_compiler_the_line_names_one(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if not re.search(r"g\+\+|gcc|c\+\+|clang|^cc$", tool.name):
            (tools / tool.name).symlink_to(tool)
    source = tmp_path / "inline.py"
    source.write_text(
        "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
        "e = load_inline('e', 'torch::Tensor f(torch::Tensor a, torch::Tensor b) { return a.mm(b); }', "
        "functions=['f'])\n\n"
        "class ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n        return e.f(a, b)\n"
    )
    done = run_outside(
        ["evaluate", "--problem", "square_matmul", str(source), "--cache", str(tmp_path / "cache"), *QUICK],
        PATH=str(tools),
        CXX="",
    )
    assert done.returncode == 3, done.stdout
    assert "compiler" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs to mount a small file system")
    try:
        done = run_outside(
            ["run", "square_matmul", "--backend", "cpp", "--workspace", str(place), "--quiet"],
            KERNELWRIGHT_API_KEY="",
            OPENAI_API_KEY="",
            OPENAI_BASE_URL="",
        )
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert done.returncode == 3
    assert "disk full" in done.stderr
    assert len(done.stderr.splitlines()) == 1
