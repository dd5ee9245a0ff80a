"""A backend: PyTorch on the CPU, with a guide and an example of its own."""

from __future__ import annotations

from pathlib import Path

from kernelwright.evaluator import Backend

BACKEND = Backend(
    name="theirs",
    device="cpu",
    language="PyTorch on the CPU",
    recognised_by=r"^# theirs$",
    guide="guide.md.j2",
    example="example.py",
    prompts_folder=str(Path(__file__).parent),
)
