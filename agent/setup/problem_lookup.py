"""Finds problems by file, folder, id or unambiguous part of an id, and the references of saved kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from kernelwright.agent.archive import Archive, ArchiveError
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.agent.workspace import Kernel
from kernelwright.evaluator import Problem, ProblemError, find_backend, find_problems, read_problem

GPU_SIZED: Final = "these sizes are made for a GPU and take long on a CPU; --shapes small is quicker"


def installed_problems() -> Path:
    """The folder of reference problems: beside `agent`, in a checkout and in an installed package."""
    return Path(__file__).parents[2] / "reference_problems"


def read_problems(names: Sequence[str]) -> list[Problem]:
    """The problems that files, folders, ids and parts of ids name, in that order, each once.

    Raises:
        UsageError: a name that fits nothing or, by a part alone, more than one problem.
        ProblemError: a file that is not a problem, or two problems with one id.
    """
    problems: dict[str, Problem] = {}
    for name in names:
        for path in _locate(name):
            problem = read_problem(path)
            known = problems.setdefault(problem.id, problem)
            if known.sha != problem.sha:
                raise ProblemError(f"two different problems are called {problem.id}; rename one: {path}")
    return list(problems.values())


def one_problem(name: str) -> Problem:
    """Return the problem that a name means; raises UsageError if it fits none or several."""
    problems = read_problems([name])
    if len(problems) != 1:
        raise UsageError(f"{name} holds {len(problems)} problems; name one of them")
    return problems[0]


def find_references(archive: Archive, kernels: Iterable[Kernel], names: Sequence[str]) -> dict[str, Problem]:
    """Map source hashes to problems: those named, and those that the kernels' runs used.

    Raises what `read_problems` raises.
    """
    found = {problem.sha: problem for problem in read_problems(names)}
    for kernel in kernels:
        run = kernel.record.provenance.run
        if kernel.record.problem_sha in found or run is None:
            continue
        try:
            found |= {problem.sha: problem for problem in archive.problems(run).values()}
        except (ArchiveError, ProblemError, OSError):
            # Runs are not tracked in git; a kernel outlives the run that made it, or its damage.
            continue
    return found


def are_meant_for_gpus(problems: Sequence[Problem], backends: Sequence[str], shapes: str | None) -> bool:
    """True if sizes made for a GPU are about to run on a CPU although smaller ones exist."""
    on_cpu = any(find_backend(backend).device == "cpu" for backend in backends)
    return on_cpu and shapes is None and any("small" in problem.shapes for problem in problems)


def _locate(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.exists() or path.suffix == ".py":
        return find_problems([path])
    root = installed_problems()
    by_id = {f"{file.parent.name}/{file.stem}": file for file in find_problems([root])}
    if name.rstrip("/") in ("all", *{key.partition("/")[0] for key in by_id}):
        return [
            file for key, file in by_id.items() if name == "all" or key.startswith(name.rstrip("/") + "/")
        ]
    if name in by_id:
        return [by_id[name]]
    stems = {key: key.rpartition("/")[2] for key in by_id}
    exact = [key for key, stem in stems.items() if name in (stem, stem.partition("_")[2])]
    fits = exact or [key for key in by_id if name in key]
    if len(fits) == 1:
        return [by_id[fits[0]]]
    if fits:
        raise UsageError(f"{name!r} could be {', '.join(fits)}; name one of them")
    close = get_close_matches(name, [*by_id, *stems.values()], n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else "`kernelwright problems list` names them"
    raise UsageError(f"no problem, file or folder called {name!r}; {hint}")
