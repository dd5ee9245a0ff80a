"""Opens the prompts of a run: which folder, for which target, with which software."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernelwright.agent.evaluation.evaluation_site import RemoteEvaluationSite
from kernelwright.agent.prompting.hardware_facts import (
    Hardware,
    find_target,
    hardware_named,
    this_machine,
)
from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts, installed_prompts
from kernelwright.agent.workspace import Workspace
from kernelwright.evaluator import (
    EvaluationConfig,
    Evaluator,
    EvaluatorError,
    Problem,
    ProblemSignature,
    find_backend,
)

_LOG: Final = logging.getLogger(__name__)


def open_prompts(
    config: EvaluationConfig,
    backends: Sequence[str],
    target: str | None = None,
    *,
    facts: Mapping[str, ProblemSignature] = MappingProxyType({}),
    workspace: Workspace | None = None,
    judges: RemoteEvaluationSite | None = None,
) -> TemplatePrompts:
    """The prompts for these backends on a named target, or on the judges' machine, or on this one.

    Feedback names the kernels saved in `workspace` that are faster. Raises ConfigError for an unknown backend
    or target, or no such device here.
    """
    folder = installed_prompts()
    named = find_target(target, folder) if target else None
    hardware: dict[str, Hardware] = {}
    for name in backends:
        kind = find_backend(name).device
        meant = named if named is not None and named.kind == kind else None
        judged_on = judges.devices.get(kind) if judges else None
        here = hardware_named(judged_on, kind, folder) if judged_on else None
        hardware[kind] = meant or here or this_machine(kind, folder)
        if named is not None and meant is None:
            _LOG.warning("--target %s is a GPU; prompts for %s speak of a CPU", target, name)
    is_elsewhere = judges is not None or (named is not None and named in hardware.values())
    versions = {} if is_elsewhere else _versions(backends, "cuda" in hardware)
    if judges is not None:
        versions["PyTorch"] = judges.torch
    setting = Setting(config=config, hardware=hardware, versions=versions, facts=facts)
    return TemplatePrompts(folder, replace(setting, fastest=workspace.fastest) if workspace else setting)


def known_facts(
    problems: Iterable[Problem], config: EvaluationConfig, cache: Path | None
) -> dict[str, ProblemSignature]:
    """Collect facts for prompts on the problems' sizes; none at all where one's cannot be had."""
    found: dict[str, ProblemSignature] = {}
    if find_spec("torch") is None:
        _LOG.info("prompts go without the problems' sizes: there is no torch here")
        return found
    with Evaluator(cache=cache) as evaluator:
        for problem in problems:
            if config.shapes is not None and config.shapes not in problem.shapes:
                continue
            try:
                found[problem.id] = evaluator.signature(problem, config)
            except EvaluatorError as error:
                _LOG.warning("prompts go without the problems' sizes: %s", error)
                return {}
    return found


def _versions(backends: Sequence[str], with_cuda: bool) -> dict[str, str]:
    """Versions on this machine: of a target that is named, nobody here knows them."""
    found = {}
    packages = {"torch": "PyTorch"}
    packages |= {each.name: each.name for name in backends for each in find_backend(name).requires}
    for package, shown in packages.items():
        with suppress(PackageNotFoundError):
            found[shown] = version(package)
    nvcc = shutil.which("nvcc") if with_cuda else None
    if nvcc is not None:
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30, check=False)
        release = re.search(r"release (\S+),", answer.stdout)
        if release:
            found["CUDA"] = release[1]
    return found
