"""The registers and memory that one compiled kernel takes of a multiprocessor."""

from __future__ import annotations

from kernelwright.evaluator.schema.record import Record


class KernelResources(Record):
    """One kernel, as it was compiled."""

    kernel: str
    """Mangled, where the compiler mangles."""
    registers: int
    """Of each thread."""
    shared_bytes: int
    """Static shared memory of each block, with what the system keeps of it (1 KiB from sm_90 on); what is
    asked for at a launch comes on top."""
    stack_bytes: int
    """Local memory of each thread: spilled registers and arrays that did not fit into any."""
