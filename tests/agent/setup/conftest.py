"""The command line, for tests of what stands behind it."""

from __future__ import annotations

from tests.agent.cli.conftest import kernelwright, quick

__all__ = ["kernelwright", "quick"]
