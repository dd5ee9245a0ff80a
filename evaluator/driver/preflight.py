"""Checks that candidates of a backend can be evaluated here, before anything is paid for."""

from __future__ import annotations

from kernelwright.evaluator.backends.registry import check_packages
from kernelwright.evaluator.host.hardware import resolve_device
from kernelwright.evaluator.sandbox import strongest
from kernelwright.evaluator.schema.config import EvaluationConfig


def check_ready(backend: str, config: EvaluationConfig) -> None:
    """Raise unless the device, the sandbox and the packages that a backend needs are here.

    Raises:
        ConfigError: unknown backend, or no device's name.
        MachineError: something is missing; the message names the way out.
    """
    check_packages(backend)
    resolve_device(config.device, backend)
    strongest(config.sandbox)
