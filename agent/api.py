"""The public Python API, `import kernelwright`; every name is loaded on first use.

Evaluate a kernel::

    import kernelwright as kw

    problem = kw.read_problem(Path("problem.py"))
    candidate = kw.Candidate(source=Path("kernel.py").read_text(), backend="cuda")
    print(kw.evaluate(problem, candidate, kw.EvaluationConfig(shapes="small")).status)

`agent/guides/python-api.md` also asks models, reads results and saved kernels, and lists the errors.
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
        ServiceClient,
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
        KernelError,
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
    "Candidate",
    "ConfigError",
    "Evaluation",
    "EvaluationConfig",
    "Evaluator",
    "EvaluatorError",
    "Kernel",
    "KernelError",
    "Limits",
    "MachineError",
    "Problem",
    "ProblemError",
    "ProviderError",
    "RunSettings",
    "Sampling",
    "ServiceClient",
    "Status",
    "UnknownKernel",
    "UnknownRun",
    "UsageError",
    "Workspace",
    "board",
    "evaluate",
    "export",
    "find_problems",
    "load_environment",
    "load_kernel",
    "read_problem",
    "run_batch",
    "screen_kernel",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        agent = import_module("kernelwright.agent")
        return getattr(agent if name in agent.__all__ else import_module("kernelwright.evaluator"), name)

    def __dir__() -> list[str]:
        return __all__
