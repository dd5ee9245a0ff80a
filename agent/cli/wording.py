"""Opens the prompts of a run: which folder, for which target, with which software."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from agent.hardware import Hardware, find_target, this_machine
from agent.prompts import Setting, TemplatePrompts, installed_prompts
from evaluator import EvaluationConfig, find_backend


def open_prompts(
    config: EvaluationConfig, backends: Sequence[str], target: str | None = None
) -> TemplatePrompts:
    """The prompts for these backends on a named target, or on this machine.

    Raises:
        ConfigError: unknown backend or target, or no such device here.
    """
    folder = installed_prompts()
    hardware: dict[str, Hardware] = {}
    for name in backends:
        kind = find_backend(name).device
        named = find_target(target, folder) if target else None
        hardware[kind] = named if named and named.kind == kind else this_machine(_kind(kind), folder)
    return TemplatePrompts(
        folder, Setting(config=config, hardware=hardware, versions=_versions("cuda" in hardware))
    )


def _kind(device: str) -> Literal["cpu", "cuda"]:
    return "cpu" if device == "cpu" else "cuda"


def _versions(with_cuda: bool) -> dict[str, str]:
    found = {}
    with suppress(PackageNotFoundError):
        found["PyTorch"] = version("torch")
    nvcc = shutil.which("nvcc") if with_cuda else None
    if nvcc is not None:
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30, check=False)
        release = re.search(r"release (\S+),", answer.stdout)
        if release:
            found["CUDA"] = release[1]
    return found
