"""The facts by which a client decides whether a service may evaluate for it. Imports no FastAPI."""

from __future__ import annotations

from kernelwright.evaluator import Record


class ServedDevice(Record):
    """Devices of one kind and name that a service evaluates on."""

    kind: str
    """`cpu` or `cuda`."""
    name: str
    """Name of the processor or GPU, as scores record it."""
    at_once: int
    """Evaluations at once, on all of them together."""
    threads: int | None = None
    """Threads of torch on a CPU, which are part of a score's policy; None on a GPU."""


class ServiceFacts(Record):
    """The evaluator behind a service, and its devices."""

    version: str
    """Of kernelwright."""
    evaluator_sha: str
    """Hash of the evaluator's source: results of others are not comparable."""
    scoring_rules: int
    torch: str
    sandbox: str
    """Tier that isolates candidates."""
    devices: tuple[ServedDevice, ...]
    takes_sources: bool = False
    """True if clients may send problems of their own."""
    problems: dict[str, str] = {}
    """Id to the SHA-256 of every problem that a submission can name."""
    trouble: tuple[str, ...] = ()
    """Reasons why it does not evaluate now, such as that it is ending."""
