"""`kernelwright doctor`: the abilities and protection of this machine, and what to install."""

from __future__ import annotations

import json as json_module
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from kernelwright.agent.cli.evaluation.policy import PROBE_S
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import notes, out, plain, print_json
from kernelwright.agent.cli.terminal.failures import did_pass

Finding = Literal["ok", "note", "weak", "missing"]

TOOLKIT = MappingProxyType(
    {
        "nvcc": "needed for the cuda backend only: install the CUDA toolkit",
        "compute-sanitizer": "kernels on a GPU go without sanitizers: install the CUDA toolkit",
        "ncu": "feedback on GPU kernels goes without hardware counters: install Nsight Compute",
    }
)
"""Programs of the CUDA toolkit, and the loss without each."""

TORCH_SCRIPT = """
import json, torch
cuda = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "threads": torch.get_num_threads(),
    "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else [],
}))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's answer."""

    name: str
    verdict: Finding
    finding: str
    remedy: str = ""
    """The way to mend it; empty when nothing needs mending."""


def doctor(json: options.Json = False) -> None:
    """Report what this machine can do, what protects it from a candidate, and which backends are ready.

    Exit status 1 means that nothing can be evaluated here yet.
    """
    checks: list[Check] = []
    for look in (_sandbox, _tools, _torch, _packages, _keys):
        found = look()
        checks += found
        if not json:
            _print(found)
            if look is _tools:
                notes().print("importing torch …", style="dim")
    ready = _backends(checks)
    if json:
        print_json([asdict(check) for check in (*checks, *ready)])
    else:
        out().print()
        _print(ready)
    raise did_pass(all(check.verdict != "missing" for check in checks))


def _backends(checks: list[Check]) -> list[Check]:
    """For each backend whether it is ready, and the reason where it is not."""
    from kernelwright.evaluator import BACKENDS

    found = {check.name: check for check in checks}
    lacks = {check.name for check in checks if check.verdict in ("weak", "missing")}
    common = [f"no {name}" for name in ("sandbox", "torch") if name in lacks]
    ready = []
    for backend in BACKENDS.values():
        missing = [*common]
        if backend.device == "cuda" and "GPU" in lacks | ({"GPU"} - set(found)):
            missing.append("no GPU")
        if not backend.requires:
            tool = "nvcc" if backend.device == "cuda" else "C++ compiler"
            missing += [f"no {tool}"] * (tool in lacks)
        if f"backend {backend.name}" in lacks:
            missing.append(found[f"backend {backend.name}"].finding)
        ready.append(_found(backend.name, not missing, "ready", f"not ready: {', '.join(missing)}"))
    return sorted(ready, key=lambda check: check.verdict != "ok")


def _sandbox() -> list[Check]:
    from kernelwright.evaluator import SandboxTier, probe

    found = probe()
    tiers = {tier: answer for tier, answer in found.tiers.items() if tier is not SandboxTier.NONE}
    checks = [
        _found(f"sandbox {tier}", answer.works, "works", "does not work", answer.reason)
        for tier, answer in tiers.items()
    ]
    works = {tier: answer for tier, answer in tiers.items() if answer.works}
    if not works:
        remedy = "install bubblewrap (apt-get install bubblewrap)"
        checks.append(Check("sandbox", "missing", "no tier works here", remedy))
    checks += [
        Check(f"{tier} gaps", "note", "; ".join(one.gaps) or "none known") for tier, one in works.items()
    ]
    checks.append(_found("limits", found.limits != "rlimits", found.limits, found.limits))
    checks.append(_found("seccomp", found.seccomp, "yes", "no"))
    if os.geteuid() == 0:
        remedy = "run kernelwright as an ordinary user"
        checks.append(_found("uid", found.dedicated_uid, "one per sandbox", "root", remedy))
    return checks


def _found(name: str, is_fine: bool, fine: str, weak: str, remedy: str = "") -> Check:
    return Check(name, "ok", fine) if is_fine else Check(name, "weak", weak, remedy)


def _tools() -> list[Check]:
    from kernelwright.evaluator import find_cuda_tool

    names = filter(None, (os.environ.get("CXX"), "g++", "c++", "clang++"))
    compiler = next(filter(None, map(shutil.which, names)), None)
    return [
        _tool("C++ compiler", compiler, "missing", "apt-get install g++"),
        *(_tool(name, find_cuda_tool(name), "weak", remedy) for name, remedy in TOOLKIT.items()),
    ]


def _tool(name: str, path: str | Path | None, otherwise: Finding, remedy: str) -> Check:
    if path is None:
        return Check(name, otherwise, "not found", remedy)
    lines = _output([str(path), "--version"]).splitlines()
    told = next((line for line in lines if "release" in line.lower()), lines[0] if lines else "")
    return Check(name, "ok", f"{path}: {told.strip()}")


def _torch() -> list[Check]:
    # In a process of its own: this one never imports torch.
    text = _output([sys.executable, "-c", TORCH_SCRIPT])
    try:
        facts = json_module.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        return [Check("torch", "missing", "cannot be imported", "pip install torch")]
    gpus = facts["gpus"]
    remedy = "the cpp backend needs none; the others need one and a CUDA build of torch"
    return [
        Check("torch", "ok", f"{facts['torch']}, {facts['threads']} threads"),
        _found("GPU", bool(gpus), ", ".join(gpus), "none that torch sees", remedy),
    ]


def _packages() -> list[Check]:
    """Packages that backends need besides torch."""
    from kernelwright.evaluator import BACKENDS

    checks = []
    for backend in BACKENDS.values():
        for package in backend.requires:
            name = f"backend {backend.name}"
            try:
                checks.append(Check(name, "ok", f"{package.name} {version(package.name)}"))
            except PackageNotFoundError:
                checks.append(Check(name, "weak", f"no {package.name}", f"pip install {package.name}"))
    return checks


def _keys() -> list[Check]:
    from kernelwright.agent.setup.credentials import api_key, base_url, key_variable

    if not api_key() and base_url() is None:
        remedy = "set OPENAI_API_KEY (and OPENAI_BASE_URL) to ask a live model"
        return [Check("model", "weak", "no key: recorded replies are replayed", remedy)]
    where = base_url() or "OpenAI's own endpoint"
    return [Check("model", "ok", f"{where}, {f'key from {key_variable()}' if api_key() else 'no key'}")]


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _print(checks: list[Check]) -> None:
    from rich.table import Table

    marks = {"ok": ("✓", "green"), "note": ("·", "dim"), "weak": ("~", "yellow"), "missing": ("✗", "red")}
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(min_width=18)
    for check in checks:
        mark, colour = marks[check.verdict]
        remedy = f"\n{check.remedy}" if check.remedy and check.verdict != "ok" else ""
        table.add_row(mark, check.name, plain(check.finding + remedy), style=colour if mark != "✓" else None)
    out().print(table)
