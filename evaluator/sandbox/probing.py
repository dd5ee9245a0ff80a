"""What this machine offers to sandboxes."""

from __future__ import annotations

from evaluator.config import SandboxTier
from evaluator.sandbox.policy import SandboxProbe


def probe() -> SandboxProbe:
    """Try every tier once; the answer is kept for the life of the process."""
    raise NotImplementedError


def strongest(requested: SandboxTier | None) -> SandboxTier:
    """The tier to use; never chooses `none` by itself.

    Raises:
        MachineError: the tier asked for, or every tier worth the name, does not work here.
    """
    raise NotImplementedError
