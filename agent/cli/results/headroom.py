"""`kernelwright problems headroom`: times of baselines, the roofline, and the best saved kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import kernelwright as kw
from kernelwright.agent.cli.evaluation.check import fitting
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import note_place, print_json, print_table
from kernelwright.agent.cli.terminal.failures import did_pass, say
from kernelwright.agent.records.durations import milliseconds

if TYPE_CHECKING:
    from kernelwright.agent.records.headroom import Headroom

STORED: Final = Path("generated") / "headroom.jsonl"
"""Where a workspace keeps the table."""


@options.with_settings(
    *("evaluation.shapes", "evaluation.device", "evaluation.dtype", "evaluation.math", "evaluation.sandbox"),
    *("evaluation.baselines", "evaluation.limits"),
)
def headroom(
    given: options.Given,
    names: options.Problems = None,
    workspace: options.Workspace = Path(),
    cache: options.Cache = None,
    again: Annotated[bool, options.flag("Measure also what is stored for this device.", "--again")] = False,
    json: options.Json = False,
) -> None:
    """Measure what a faster kernel of a problem could gain: the baselines, and the roofline below them.

    Each problem's own reference is evaluated as a candidate would be. Results are stored in
    generated/headroom.jsonl of the workspace as they come, so that an interrupted table goes on.

    Exit status 1 means that at least one problem could not be measured.
    """
    from kernelwright.agent.records.headroom import read_headroom, store_headroom
    from kernelwright.agent.setup.problem_lookup import read_problems
    from kernelwright.evaluator import Sanitize

    config = given.run_settings().evaluation.model_copy(update={"sanitize": Sanitize.OFF})
    problems, path = read_problems(names or ["all"]), workspace / STORED
    found: list[Headroom] = []
    with kw.Evaluator(cache=cache) as evaluator:
        known = {} if again else {one.key: one for one in read_headroom(path)}
        for number, problem in enumerate(problems, 1):
            wanted = fitting(problem, config)
            stored = known.get((problem.sha, wanted.model_dump_json(), _device_name(wanted)))
            if stored is None:
                note_place(number, len(problems), problem.id)
                stored = _measured(evaluator, problem, wanted)
                if not stored.trouble:
                    store_headroom(path, stored)
            found.append(stored)
    if json:
        print_json(found)
    else:
        _print(found, workspace)
        say(f"stored in {path}")
    raise did_pass(not any(one.trouble for one in found))


def _backend(config: kw.EvaluationConfig) -> str:
    from kernelwright.evaluator import gpus

    on_gpu = config.device.startswith("cuda") or (config.device == "auto" and bool(gpus()))
    return "cuda" if on_gpu else "cpp"


def _device_name(config: kw.EvaluationConfig) -> str:
    from kernelwright.evaluator import cpu_name, gpus, resolve_devices

    device = resolve_devices(config.device, _backend(config))[0]
    return cpu_name() if device == "cpu" else gpus()[int(device.partition(":")[2])].name


def _measured(evaluator: kw.Evaluator, problem: kw.Problem, config: kw.EvaluationConfig) -> Headroom:
    """Evaluate the reference as a candidate for itself."""
    from kernelwright.agent.records.headroom import Headroom, headroom_of

    source = f"{problem.source}\n\n\nclass ModelNew(Model):\n    pass\n"
    try:
        evaluation = evaluator.evaluate(
            problem, kw.Candidate(source=source, backend=_backend(config)), config
        )
    except kw.MachineError:
        raise
    except kw.EvaluatorError as error:
        return Headroom(
            problem=problem.id,
            problem_sha=problem.sha,
            config=config,
            device_name=_device_name(config),
            trouble=str(error),
        )
    return headroom_of(problem, evaluation, _device_name(config))


def _print(found: Iterable[Headroom], workspace: Path) -> None:
    kernels = list(kw.Workspace(workspace).kernels(lambda _, error: say(f"left out: {error}")))
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for one in sorted(found, key=lambda one: (one.factor is None, -(one.factor or 0.0))):
        if one.trouble:
            rows.append((one.problem, "-", "-", "-", "-", one.trouble))
        else:
            times = (one.eager_ms, one.compile_ms, one.roofline_ms)
            cells = [milliseconds(ms) if ms is not None else "-" for ms in times]
            factor = f"{one.factor:.2f}×" if one.factor is not None else "-"
            rows.append((one.problem, *cells, factor, _best(one, kernels)))
        styles.append("red" if one.trouble else "")
    print_table("problem >eager >compile >roofline >headroom best_saved_kernel", rows, styles)


def _best(one: Headroom, kernels: Iterable[kw.Kernel]) -> str:
    """The fastest saved kernel of the same task on the same hardware, against the same baselines."""
    from kernelwright.agent.records.score_policy import fit_speedup, policy_of

    fitting = [
        (speedup, kernel.record.backend)
        for kernel in kernels
        if kernel.record.problem_sha == one.problem_sha
        and policy_of(kernel.score).task == (one.device_name, *one.task)
        and policy_of(kernel.score).baselines == tuple(sorted(set(one.config.baselines)))
        and (speedup := fit_speedup(kernel.score)) is not None
    ]
    return f"{max(fitting)[0]:.2f}× {max(fitting)[1]}" if fitting else "-"
