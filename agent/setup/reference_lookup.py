"""Finds the references of kept kernels: among named problems, and in the runs that made the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.setup.problem_lookup import read_problems
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import Problem


def find_references(archive: Archive, kernels: Iterable[Kernel], names: Sequence[str]) -> dict[str, Problem]:
    """Problems by the hash of their source: those named, and those that the kernels' runs used.

    Raises:
        UsageError, ProblemError: a name means no problem.
    """
    found = {problem.sha: problem for problem in read_problems(names)}
    for kernel in kernels:
        run = kernel.record.provenance.run
        if kernel.record.problem_sha in found or run is None:
            continue
        try:
            found |= {problem.sha: problem for problem in archive.problems(run).values()}
        except (ArchiveError, OSError):
            # Runs are not tracked in git; a kernel outlives the run that made it.
            continue
    return found
