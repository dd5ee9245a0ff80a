"""A sixth backend, a plugin of another distribution, is recognised, attributed and prompted for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
from pathlib import Path
from kernelwright.evaluator import Backend, Package

BACKEND = Backend(
    name="warp",
    device="cuda",
    language="Warp",
    fence_tags=("warp",),
    requires=(Package(name="warp-lang", module="warp_that_is_missing"),),
    decorators=("wp.stencil",),
    recognised_by=r"^import warp\\b",
    compiled_names=(r"warp_(?P<start>\\w+)",),
    compiler_frames=r"/warp/build\\.py",
    error_pointer=r"warp: line (?P<line>\\d+)",
    environment={"WARP_CACHE_PATH": "/tmp/warp"},
    prompts_folder=str(Path(__file__).parent / "warp_prompts"),
)
"""
PROGRAM = """
import json, sys
from pathlib import Path
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.prompting.diagnostics import read_kernel_error
from kernelwright.agent.prompting.prompts import TemplatePrompts, installed_prompts
from kernelwright.evaluator import BACKENDS, MachineError, check_packages, find_backend, guess_backend
from kernelwright.evaluator.analysis.attribution import TraceEvent, attribute
from kernelwright.evaluator.analysis.elf_symbols import Symbols
from kernelwright.evaluator.backends.registry import export_backends
from kernelwright.evaluator.contestant.exceptions import CompilerPatterns

source = "import warp as wp\\n\\n@wp.stencil\\ndef blur_rows(x): ...\\n\\nclass ModelNew: ...\\n"
export_backends(Path(sys.argv[1]))
patterns = CompilerPatterns.read(Path(sys.argv[1], "backends.json"))
try:
    missing = check_packages("warp")
except MachineError as error:
    missing = str(error)
events = [TraceEvent("kernel", "warp_blur_rows_f32", 1.0)]
print(json.dumps({
    "known": list(BACKENDS),
    "guess": guess_backend(source),
    "missing": missing,
    "track": attribute(events, Symbols(), source).track,
    "extracted": extract(f"Here: ```warp\\n{source}```", finish_reason="stop").code,
    "error": read_kernel_error("error: no\\nwarp: line 4", source).source[-1].text,
    "prompt": TemplatePrompts(installed_prompts()).render_system(find_backend("warp")),
    "compiling": bool(patterns.compiling.search("/v/warp/build.py")),
}))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder with an installed distribution that brings a backend."""
    site = tmp_path / "site"
    metadata = site / "warp_backend-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: warp-backend\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[kernelwright.backends]\nwarp = warp_backend:BACKEND\n")
    (site / "warp_backend.py").write_text(PLUGIN)
    for name, text in (("backends/warp.md.j2", "Launch stencils."), ("examples/warp.py", "import warp")):
        file = site / "warp_prompts" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return site


def run(program: str, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter that also sees the plugin's distribution."""
    paths = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plugin_is_recognised_attributed_and_prompted_for(plugin: Path, tmp_path: Path) -> None:
    done = run(PROGRAM, plugin, str(tmp_path))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["known"] == ["cpp", "cuda", "cute", "tilelang", "triton", "warp"]
    assert seen["guess"] == "warp"
    assert seen["missing"] == "backend warp needs the package warp-lang: pip install warp-lang"
    assert seen["track"] == "own"
    assert "def blur_rows" in seen["extracted"]
    assert seen["error"] == "class ModelNew: ..."
    assert "Launch stencils." in seen["prompt"]
    assert "import warp" in seen["prompt"]
    assert seen["compiling"]


def test_a_copy_in_a_sandbox_knows_the_backends_the_driver_exported(plugin: Path, tmp_path: Path) -> None:
    """Without the plugin's metadata: from the data beside the copy of the evaluator alone."""
    done = run(PROGRAM, plugin, str(tmp_path))
    assert done.returncode == 0, done.stderr
    package = Path(__file__).parents[3] / "evaluator"
    image = tmp_path / "image" / "kernelwright"
    image.mkdir(parents=True)
    (image / "__init__.py").touch()
    for part in ("schema", "backends"):
        (image / "evaluator").mkdir(exist_ok=True)
        (image / "evaluator" / part).symlink_to(package / part)
    (image / "evaluator" / "__init__.py").touch()
    (image / "evaluator" / "backends.json").write_text((tmp_path / "backends.json").read_text())
    program = (
        f"import sys; sys.path.insert(0, {str(image.parent)!r})\n"
        "from kernelwright.evaluator.backends.registry import BACKENDS\n"
        "print(BACKENDS['warp'].environment, len(BACKENDS))"
    )
    done = run(program, tmp_path)
    assert done.stdout == "{'WARP_CACHE_PATH': '/tmp/warp'} 6\n", done.stderr


def test_an_entry_that_is_no_backend_is_a_configuration_error(plugin: Path) -> None:
    (plugin / "warp_backend.py").write_text("BACKEND = 'warp'\n")
    done = run("from kernelwright.evaluator import find_backend; find_backend('warp')", plugin)
    assert (
        "ConfigError: the entry point 'warp' of kernelwright.backends is no Backend of that name"
        in done.stderr
    )
    (plugin / "warp_backend.py").write_text(PLUGIN.replace(r"line (?P<line>", "line (?P<line"))
    done = run("from kernelwright.evaluator import find_backend; find_backend('warp')", plugin)
    assert "backend 'warp' has a broken pattern" in done.stderr
