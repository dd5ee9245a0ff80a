"""The documentation: links lead somewhere, commands and options exist, Python snippets compile or run.

Markers in a guide: `<!-- run -->` before a snippet runs it here, `<!-- part: NAME -->` joins Python snippets
into one module that is compiled and, with all plugin seams there, imported.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

import kernelwright
from kernelwright.agent.cli.app import app
from kernelwright.evaluator import Status
from tests.specimens import specimens

ROOT = Path(__file__).parent.parent
GUIDES = ROOT / "agent" / "guides"
INTEGRITY = ROOT / "evaluator" / "INTEGRITY.md"
MAX_README_LINES, MAX_README_BYTES = 150, 8 << 10
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(
        page
        for folder in ("agent", "evaluator", "prompts", "reference_problems", "generated", "tests")
        for page in (ROOT / folder).rglob("*.md")
        if not {"recordings", "golden"} & set(page.parts)
    ),
]
_FENCE = re.compile(r"(?:<!-- (?P<mark>[\w: ]+) -->\n)?^```(?P<tag>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.M)
_SEPARATORS = re.compile(r"^(?:;|&&|\|\||\||&)$")
_RUN = frozenset(
    {
        "kernelwright problems show 11_rms_norm",
        "kernelwright prompt 11_rms_norm --backend cpp",
        "kernelwright run --print-config",
    }
)
"""Commands that are run, since they are quick and change nothing."""
_PLUGINS = {"twice": "sample", "canned": "replay", "runs": "attempts"}
"""Names that the example plugin registers, and names of ours that are parsed in their place."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One fenced block of a page."""

    page: Path
    tag: str
    mark: str
    text: str


def name(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT))


def snippets(*tags: str) -> list[Snippet]:
    """All fenced blocks of README, guides and INTEGRITY.md with these tags."""
    pages = [ROOT / "README.md", INTEGRITY, *sorted(GUIDES.glob("*.md")), ROOT / "tests/benchmarks/README.md"]
    return [
        Snippet(page, match["tag"], match["mark"] or "", match["text"])
        for page in pages
        for match in _FENCE.finditer(page.read_text("utf-8"))
        if match["tag"] in tags
    ]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(anchor if anchor not in found else f"{anchor}-1")
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell snippet, without variables that are set for them."""
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in shlex.split(line, comments=True):
            if _SEPARATORS.match(word):
                yield words
                words = []
            elif words or not re.match(r"^\w+=", word):
                words.append(word)
        if words:
            yield words


def inline_commands(page: Path) -> Iterator[list[str]]:
    """Commands in a page's running text that name a subcommand."""
    for code in re.findall(r"`(kernelwright [a-z][^`]*)`", prose(page)):
        yield shlex.split(code.replace("…", ""))


def check_command(words: list[str], *, whole: bool) -> None:
    """Parse a command line of ours, a whole one with its types and choices, and run nothing.

    Raises:
        Exception: what the parser raises.
    """
    command = typer.main.get_command(app)
    context = command.make_context("kernelwright", [], resilient_parsing=True)
    parser = command.make_parser(context)
    parser.allow_interspersed_args = False
    _, arguments, _ = parser.parse_args(words[1:])  # options before the subcommand
    while isinstance(command, typer.core.TyperGroup):
        assert arguments, f"no subcommand: {words}"
        assert arguments[0] in command.commands, f"unknown command {arguments[0]!r} in {shlex.join(words)}"
        command, arguments = command.commands[arguments[0]], arguments[1:]
        if isinstance(command, typer.core.TyperGroup):
            context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    if whole:
        command.make_context(command.name, [_PLUGINS.get(word, word) for word in arguments], parent=context)
    else:
        command.make_parser(type(context)(command, parent=context)).parse_args(list(arguments))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for match in _LINK.finditer(prose(page)):
        target, _, anchor = unquote(match["target"]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name(page)}: no {target}"
        if anchor:
            assert anchor in anchors(path), f"{name(page)}: {target} has no heading #{anchor}"


@pytest.mark.parametrize("page", sorted({one.page for one in snippets("sh")}), ids=name)
def test_every_command_and_option_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for words in inline_commands(page):
        check_command(words, whole=False)
    for words in [words for one in snippets("sh") if one.page == page for words in commands(one.text)]:
        match words:
            case [program, *_] if Path(program).name == "kernelwright":
                check_command(words, whole=True)
            case ["make", target]:
                assert re.search(rf"^{target}:", makefile, re.M), f"no target {target}"
            case ["python", script, *_]:
                assert (ROOT / script).is_file(), f"no {script}"


@pytest.mark.parametrize("line", sorted(_RUN))
def test_quick_commands_run(line: str, tmp_path: Path) -> None:
    assert any(shlex.split(line) == words for one in snippets("sh") for words in commands(one.text)), line
    environment = {
        **{key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_BASE_URL"))},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KERNELWRIGHT_WORKSPACE": str(tmp_path),
        "KERNELWRIGHT_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        shlex.split(line), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_python_snippet_compiles_and_names_what_exists() -> None:
    for one in snippets("python"):
        compile(one.text, name(one.page), "exec")
        tree = ast.parse(one.text)
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=names) if module.startswith("kernelwright"):
                    missing = [each.name for each in names if not hasattr(import_module(module), each.name)]
                    assert missing == [], f"{name(one.page)}: {module}"
                case ast.Attribute(value=ast.Name(id="kw"), attr=attribute):
                    assert attribute in kernelwright.__all__, f"{name(one.page)}: kw.{attribute}"


def test_marked_python_snippets_run(tmp_path: Path, shared_cache: Path) -> None:
    (tmp_path / "kernelwright").symlink_to(shared_cache)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    ran = [one for one in snippets("python") if one.mark == "run"]
    assert ran
    for one in ran:
        done = subprocess.run(
            [sys.executable, "-c", one.text],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{name(one.page)}: {done.stderr}"
        assert "PASSED" in done.stdout


def test_the_example_plugin_can_be_imported(tmp_path: Path) -> None:
    parts: dict[str, str] = defaultdict(str)
    for one in snippets("python"):
        if one.mark.startswith("part: "):
            parts[one.mark.removeprefix("part: ")] += one.text
    assert parts
    for module, text in parts.items():
        (tmp_path / f"{module}.py").write_text(text)
        run = [sys.executable, "-c", f"import {module}"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= MAX_README_LINES
    assert len(text.encode()) <= MAX_README_BYTES


def test_the_kernel_of_the_readme_is_the_one_that_is_evaluated() -> None:
    shown = next(one.text for one in snippets("cpp") if one.page == ROOT / "README.md")
    assert shown in (GUIDES / "examples" / "rms_norm.py").read_text("utf-8")


def test_images_are_small() -> None:
    assert all(image.stat().st_size <= 200 << 10 for image in (GUIDES / "images").glob("*"))


def test_every_status_is_explained() -> None:
    table = (GUIDES / "statuses.md").read_text("utf-8")
    assert [status for status in Status if f"| `{status.value}` |" not in table] == []


def test_every_class_that_the_corpus_names_is_defined() -> None:
    defined = re.findall(r"^### ([A-Z]\d+) ", INTEGRITY.read_text("utf-8"), re.M)
    assert len(defined) == len(set(defined))
    used = {one for specimen in specimens() for one in specimen.listed("class")}
    assert {one for one in used if one[1:]} - set(defined) == set()
    assert {one for one in used if not one[1:]} <= {one[0] for one in defined}
