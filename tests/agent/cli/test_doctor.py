"""`kernelwright doctor` names everything that kernels of some backend need."""

from __future__ import annotations

import json
from collections.abc import Callable

from typer.testing import Result

from kernelwright.evaluator import BACKENDS


def test_every_tool_and_package_is_named(kernelwright: Callable[..., Result]) -> None:
    checks = {check["name"]: check for check in json.loads(kernelwright("doctor", "--json").stdout)}
    wanted = {f"backend {backend.name}" for backend in BACKENDS.values() if backend.requires}
    assert wanted == {"backend triton", "backend tilelang", "backend cute"}
    for name in (*wanted, "nvcc", "compute-sanitizer", "ncu", "C++ compiler", "torch"):
        assert checks[name]["verdict"] == "ok" or checks[name]["remedy"]
