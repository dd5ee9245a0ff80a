"""The project's shape: short files, one-way imports, and a command line that loads nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 400
WRITTEN = (".py", ".cpp", ".h", ".cu", ".js", ".css", ".html", ".j2")
"""Suffixes of what somebody wrote and somebody reads."""
ALL = sorted(
    path
    for folder in ("agent", "evaluator", "prompts", "reference_problems", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in WRITTEN and "corpus" not in path.parts
)
OURS = [path for path in ALL if path.suffix == ".py"]
HEAVY = ("torch", "openai", "httpx2", "numpy", "jinja2", "kernelwright.evaluator", "asyncio")


def loaded_after(code: str, modules: tuple[str, ...]) -> list[str]:
    """Which of the modules a fresh interpreter has loaded after running some code."""
    script = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {modules!r} if name in sys.modules], file=sys.stderr))
{code}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    loaded = ast.literal_eval(done.stderr.strip().splitlines()[-1])
    assert isinstance(loaded, list)
    return loaded


def test_no_file_is_longer_than_a_reader_wants() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in ALL}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_everything_that_tests_may_skip_without_is_installed_for_all_of_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.search(r"-e '\.\[([\w,]*interop[\w,]*)\]'", (ROOT / "Makefile").read_text("utf-8"))
    assert named is not None
    installed = {re.split(r"[>=<]", one)[0] for extra in named[1].split(",") for one in extras[extra]}
    assert {"datasets", "trl", "schemathesis", "playwright", "axe-playwright-python"} <= installed


@pytest.mark.parametrize("package", ["kernelwright", "kernelwright.agent", "kernelwright.evaluator"])
def test_importing_a_package_loads_no_torch_and_no_client(package: str) -> None:
    assert loaded_after(f"import {package}", ("torch", "openai", "typer", "rich", "jinja2", "asyncio")) == []


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["evaluate", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"sys.argv = ['kernelwright', *{arguments!r}]; from kernelwright.agent.cli import main; main()"
    assert loaded_after(code, HEAVY) == []


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout


def test_only_what_runs_in_a_sandbox_imports_torch() -> None:
    sandboxed = {"referee", "contestant", "devices", "ipc", "lean_headers", "guides"}
    importers = [
        str(path.relative_to(ROOT))
        for path in OURS
        if path.is_relative_to(ROOT / "agent") or path.is_relative_to(ROOT / "evaluator")
        if not sandboxed & set(path.parts)
        if imports_torch(ast.parse(path.read_text("utf-8")))
    ]
    assert importers == []


def imports_torch(tree: ast.Module) -> bool:
    """Whether a module imports torch anywhere, functions included."""
    names = [
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    ] + [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(name.partition(".")[0] == "torch" for name in names)


def test_the_tests_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_wheel_holds_the_packages_the_prompts_and_the_problems(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        held = set(archive.namelist())
    for folder, inside in (
        ("agent", "kernelwright/agent"),
        ("evaluator", "kernelwright/evaluator"),
        ("prompts", "kernelwright/prompts"),
        ("reference_problems", "kernelwright/reference_problems"),
    ):
        files = [
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix != ".pyc" and "guides" not in path.parts
        ]
        missing = {f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" for path in files} - held
        assert missing == set()
    assert {name.partition("/")[0] for name in held if ".dist-info" not in name} == {"kernelwright"}


def test_the_links_of_the_editable_install_lead_to_the_packages() -> None:
    links = ROOT / ".ci" / "src" / "kernelwright"
    for name in ("agent", "evaluator", "prompts", "reference_problems"):
        assert (links / name).resolve() == ROOT / name
    assert (links / "__init__.py").resolve() == ROOT / "agent" / "api.py"
    assert (links / "py.typed").resolve() == ROOT / "agent" / "py.typed"


def test_the_editable_install_puts_one_name_on_the_path() -> None:
    (added,) = [path for path in map(Path, sys.path) if path.resolve() == ROOT / ".ci" / "src"][:1]
    assert {path.name for path in added.iterdir()} == {"kernelwright"}


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"## {project['version']} " in (ROOT / "CHANGELOG.md").read_text("utf-8")
