"""The public Python API, `import kernelwright`; every name is loaded on first use.

Evaluate a kernel::

    import kernelwright as kw

    problem = kw.read_problem(Path("problem.py"))
    candidate = kw.Candidate(source=Path("kernel.py").read_text(), backend="cuda")
    evaluation = kw.evaluate(problem, candidate, kw.EvaluationConfig(shapes="small"))
    print(evaluation.status, evaluation.speedup)

`evaluate` opens an evaluator for one call; `with kw.Evaluator() as evaluator` keeps one for many.

Ask models for kernels, as `kernelwright run` does::

    batch = kw.run_batch(kw.RunSettings(problems=("level1",), models=("gpt-5",)), workspace=Path("work"))
    print(batch.summary.passed, [kernel.id for kernel in batch.kernels])

Read what was produced: `Workspace(folder)` gives `kernels()` and `archive()`; `board(archive.attempts())`
ranks; `export("sft", Path("data"), workspace=folder)` writes training data; `screen_kernel("3f2a")` reports
on a saved kernel, which is foreign code, and `load_kernel("3f2a", sandbox=True)` runs it;
`verifiers.load_environment("kernelwright")` finds `load_environment`.

Errors are `UsageError` and `ConfigError` (mend the call), `ProblemError` (mend the
problem), `MachineError` (mend the machine), `ProviderError` and `ArchiveError`; all failures of the evaluator
are `EvaluatorError`s. A candidate's failure is no error but the `Status` of its `Evaluation`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.agent import (
        Archive,
        ArchiveError,
        Batch,
        Board,
        Budget,
        Kernel,
        ProviderError,
        RunSettings,
        Sampling,
        UnknownKernel,
        UnknownRun,
        UsageError,
        Workspace,
        board,
        export,
        load_environment,
        run_batch,
    )
    from kernelwright.evaluator import (
        Candidate,
        ConfigError,
        Evaluation,
        EvaluationConfig,
        Evaluator,
        EvaluatorError,
        Limits,
        MachineError,
        Problem,
        ProblemError,
        Status,
        evaluate,
        find_problems,
        load_kernel,
        read_problem,
        screen_kernel,
    )

__all__ = [
    "Archive",
    "ArchiveError",
    "Batch",
    "Board",
    "Budget",
    "Kernel",
    "ProviderError",
    "RunSettings",
    "Sampling",
    "UnknownKernel",
    "UnknownRun",
    "UsageError",
    "Workspace",
    "board",
    "export",
    "load_environment",
    "run_batch",
]
_AGENT = frozenset(__all__)
__all__ += [
    "Candidate",
    "ConfigError",
    "Evaluation",
    "EvaluationConfig",
    "Evaluator",
    "EvaluatorError",
    "Limits",
    "MachineError",
    "Problem",
    "ProblemError",
    "Status",
    "evaluate",
    "find_problems",
    "load_kernel",
    "read_problem",
    "screen_kernel",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "kernelwright.agent" if name in _AGENT else "kernelwright.evaluator"
        return getattr(import_module(home), name)

    def __dir__() -> list[str]:
        return __all__
