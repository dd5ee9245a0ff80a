"""Precision flags of a math policy, pinned alike in the referee and in every process it commands."""

from __future__ import annotations

import torch


def apply_math(math: str) -> None:
    """Allow reduced-precision matrix products only where the policy does."""
    reduced = math != "fp32"
    torch.set_float32_matmul_precision("high" if reduced else "highest")
    torch.backends.cuda.matmul.allow_tf32 = reduced
    torch.backends.cudnn.allow_tf32 = reduced
