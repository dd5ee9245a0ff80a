"""The allow-list: enough to run, and neither home nor project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import kernelwright
from kernelwright import evaluator
from kernelwright.evaluator.sandbox import python_binds
from kernelwright.evaluator.sandbox.isolation.mounts import system_binds

SOURCES = Path(next(iter(kernelwright.__path__))).parent
PROJECT = Path(evaluator.__file__).resolve().parents[1]

SHOW = """
import json
from kernelwright.evaluator.sandbox import python_binds
from kernelwright.evaluator.sandbox.isolation.mounts import system_binds
binds = (*python_binds(), *system_binds(devices=False))
print(json.dumps([[str(bind.source), str(bind.target)] for bind in binds]))
"""


def test_neither_home_nor_project_is_on_the_list() -> None:
    for bind in (*python_binds(), *system_binds(devices=True)):
        assert not Path.home().resolve().is_relative_to(bind.source), bind
        assert PROJECT.parent.name == "site-packages" or not PROJECT.is_relative_to(bind.source), bind
        assert not bind.writable


def test_the_interpreter_and_its_packages_are_on_the_list() -> None:
    shown = [bind.target or bind.source for bind in (*python_binds(), *system_binds(devices=False))]
    links = ("/bin", "/lib", "/lib64", "/sbin")
    for path in (
        sys.executable,
        os.path.realpath(sys.executable),
        json.__file__,
        evaluator.schema.record.__file__,
    ):
        if not Path(path).resolve().is_relative_to(PROJECT / "evaluator"):
            assert any(Path(path).is_relative_to(folder) for folder in (*shown, *links)), path


def test_an_environment_that_is_the_project_folder_shows_only_its_own_parts(tmp_path: Path) -> None:
    project = tmp_path / "project"
    venv.create(project, with_pip=False, symlinks=True)
    (project / "secret.py").write_text("secret")
    packages = next((project / "lib").glob("python*/site-packages"))
    theirs = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "borrowed.pth").write_text("\n".join([str(SOURCES), *theirs]))
    environment = {"HOME": str(project), "PATH": os.environ["PATH"]}
    argv = (project / "bin" / "python", "-c", SHOW)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    sources = [Path(source) for source, _ in json.loads(done.stdout)]
    assert any((project / "lib").is_relative_to(source) for source in sources)
    assert not any((project / "secret.py").is_relative_to(source) for source in sources)


def test_only_devices_show_all_of_sys() -> None:
    assert Path("/sys") in [bind.target for bind in system_binds(devices=True)]
    assert Path("/sys") not in [bind.target for bind in system_binds(devices=False)]
