"""Which host paths a sandbox sees: an allow-list."""

from __future__ import annotations

from evaluator.sandbox.policy import Bind


def python_binds() -> tuple[Bind, ...]:
    """The running interpreter, its packages and the CUDA toolkit, read-only."""
    raise NotImplementedError
