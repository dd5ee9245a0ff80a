"""Loads a saved kernel for use in one's own model: in this process, without a sandbox, on request.

No evaluation uses this. The source is checked against the hash it was scored under, and then runs with
every right this process has; what it needs is compiled now.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from kernelwright.evaluator.schema.candidate import Candidate
from kernelwright.evaluator.schema.errors import ConfigError

GENERATED = "generated"


def load_kernel(
    name: str, workspace: Path | str = "."
) -> type[Any]:  # Any: a torch.nn.Module, unimported here
    """The class `ModelNew` of the kernel that an id or the unmistakable beginning of one names.

    Raises:
        ConfigError: no such kernel, several, or a source that is not the one that was scored.
    """
    folder = _find(name, Path(workspace) / GENERATED)
    source = (folder / "kernel.py").read_bytes().decode("utf-8", "surrogatepass")
    try:
        score = json.loads((folder / "score.json").read_bytes())
        scored = Candidate(source=source, backend=score["backend"]).sha == score["sha"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / 'score.json'} is missing or damaged; restore it") from error
    if not scored:
        raise ConfigError(f"{folder / 'kernel.py'} is not the source that was scored; restore it")
    return _load(f"kernelwright_kept_{score['sha'][:32]}", folder / "kernel.py")


def _find(name: str, generated: Path) -> Path:
    folders = sorted(path.parent for path in generated.glob("*/*/*/kernel.py"))
    fits = [folder for folder in folders if folder.name == name]
    fits = fits or [folder for folder in folders if folder.name.startswith(name)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise ConfigError(f"{name!r} could be {', '.join(str(folder) for folder in fits)}")
    raise ConfigError(f"no saved kernel {name!r} below {generated}; it holds {len(folders)}")


def _load(module_name: str, path: Path) -> type[Any]:  # Any: see above
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{path} is not Python")
        module = importlib.util.module_from_spec(spec)
        # Before it runs: what compiles kernels from Python source looks the module up by its name.
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    model: type[Any] = module.ModelNew
    return model
