"""The environment that sandboxed processes are started in."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from kernelwright.evaluator.driver.processes.runtime_image import RuntimeImage, keep_bytecode
from kernelwright.evaluator.sandbox import strongest
from kernelwright.evaluator.schema.config import EvaluationConfig

_OTHERS_CPU_S = "import numpy, time; time.sleep(0.2); print(time.process_time() - time.thread_time())"


def test_numpys_threads_do_not_spin_while_there_is_no_work() -> None:
    image = RuntimeImage(strongest(None))
    libraries = image.built_folder("1")
    policies = [
        image.contestant_policy(EvaluationConfig(), device="cpu", libraries=libraries, threads=4),
        image.referee_policy(device="cpu", threads=4),
    ]
    image.close()
    for policy in policies:
        command = [sys.executable, "-c", _OTHERS_CPU_S]
        told = subprocess.run(
            command, env=dict(policy.environment), capture_output=True, text=True, check=True
        ).stdout
        assert float(told) < 0.005, "by default each spins for 0.03 s"


def test_bytecode_is_kept_where_an_installer_left_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "left_out"
    package.mkdir()
    (package / "__init__.py").write_text("from left_out import part\n")
    (package / "part.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    modules = ["left_out", "left_out.part", "no_such_package"]
    process = keep_bytecode(modules)
    assert process is not None
    assert process.wait(60) == 0

    files = [Path(cache_from_source(str(file))) for file in package.glob("*.py")]
    assert all(file.exists() for file in files)
    assert keep_bytecode(modules) is None
    files[0].unlink()
    again = keep_bytecode(modules)
    assert again is not None
    again.wait(60)
