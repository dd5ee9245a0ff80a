"""`kernelwright verify` and `kernelwright kernels rescore`: saved kernels evaluated again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import kernelwright as kw
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.console import line, out, print_json
from kernelwright.agent.cli.terminal.failures import ExitCode, did_pass, say, say_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernelwright.agent.archive.reproduction import Reproduction
    from kernelwright.agent.runner.reevaluation import Decide, ReevaluationJob

Kernels = Annotated[
    options.Names,
    options.argument(
        "Kernel ids, or unique prefixes of them. Default: every saved kernel.",
        "KERNEL...",
        autocompletion=completion.kernels,
    ),
]
Workers = Annotated[
    int | None,
    options.option(
        "Kernels in flight; timing is exclusive. Default: by devices and cores.", min=1, max=64, metavar="N"
    ),
]
Results = Annotated[
    Path | None,
    options.option(
        "Append results to FILE; kernels with a settled one of this command, machine and evaluator are "
        "left out.",
        metavar="FILE",
    ),
]


@options.with_settings(*options.OPERATOR)
def verify(
    given: options.Given,
    kernels: Kernels = None,
    workspace: options.Workspace = Path(),
    problem: options.ProblemNames = None,
    keep: Annotated[bool, options.flag("Add the new scores of kernels that passed.", "--keep")] = False,
    workers: Workers = None,
    results: Results = None,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Evaluate saved kernels again, here or by --judge, each on the terms of its score.

    Sizes, types, math, passes, baselines and trials are those of the score. A score of others decides neither
    sandbox nor limits nor device: those are of the options, or the default ones.

    Each is reproduced, different, damaged, or not comparable (other hardware or policy, no such device, a
    changed problem, a busy machine). A kernel is different only if a second evaluation agrees. References
    come from --problem and from the runs that made the kernels. Results are printed as they come; an
    interrupted command goes on where it was with the same --results. Exit status 1 means that at least one
    is different or damaged, 3 that none could be evaluated.
    """
    from kernelwright.agent.archive.reproduction import compare
    from kernelwright.agent.records.score_policy import exclusion_reason
    from kernelwright.agent.runner.reevaluation import ReevaluationJob

    place = kw.Workspace(workspace)
    chosen, broken = _chosen(place, kernels)

    def save(job: ReevaluationJob, found: Reproduction) -> None:
        after = found.after
        if keep and after is not None and after.status == "PASSED" and not exclusion_reason(after):
            place.keep(job.kernel.source, after, job.kernel.record.provenance)

    config = given.run_settings().evaluation
    jobs = [
        ReevaluationJob(kernel, kernel.score, config.on_terms_of(kernel.score.config)) for kernel in chosen
    ]
    library = _Library(
        *("verify", place, jobs, broken, problem or ["all"], workers, results, cache, given.run_settings())
    )
    raise library.evaluate(compare, save, json=json)


@options.with_settings(*options.POLICY)
def rescore(
    given: options.Given,
    kernels: Kernels = None,
    workspace: options.Workspace = Path(),
    problem: options.ProblemNames = None,
    drop: Annotated[
        bool, options.flag("Remove kernels that no longer pass or are slower.", "--drop")
    ] = False,
    workers: Workers = None,
    results: Results = None,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Evaluate saved kernels again under one policy, and replace their scores on this hardware.

    Sizes, types, math and passes are those of a kernel's scores unless options name others; baselines, trials
    and everything else are those of the options. A score that other work disturbed stays as it was. Kernels
    that no longer pass, or are slower than the fastest baseline twice, are listed, and removed with --drop.
    Results are printed and saved as they come; an interrupted command goes on where it was with the same
    --results. Exit status 1 means that at least one kernel is not what its score says.
    """
    from kernelwright.agent.archive.reproduction import ReproductionOutcome
    from kernelwright.agent.archive.reproduction import rescore as decide
    from kernelwright.agent.runner.reevaluation import rescoring
    from kernelwright.agent.setup.preparation import keeping

    place = kw.Workspace(workspace)
    chosen, broken = _chosen(place, kernels)

    def save(job: ReevaluationJob, found: Reproduction) -> None:
        after = found.after
        if after is None:
            return
        if found.outcome in (ReproductionOutcome.SLOWER, ReproductionOutcome.FAILED) and drop:
            place.drop_scores(job.kernel, after)
        elif found.outcome in (ReproductionOutcome.RESCORED, ReproductionOutcome.SLOWER):
            place.replace_scores(job.kernel, after)

    jobs = rescoring(chosen, keeping(given.run_settings().evaluation), frozenset(given.flags))
    library = _Library(
        *("rescore", place, jobs, broken, problem or ["all"], workers, results, cache, given.run_settings())
    )
    raise library.evaluate(decide, save, json=json)


def _chosen(place: kw.Workspace, names: Sequence[str] | None) -> tuple[list[kw.Kernel], list[Reproduction]]:
    """The kernels to evaluate, and reports of those that are damaged."""
    from kernelwright.agent.archive.reproduction import damaged

    found: list[kw.Kernel] = []
    broken: list[Reproduction] = []
    if not names:
        found += place.kernels(
            lambda folder, error: broken.append(damaged(folder.name, str(error), folder.parent.name))
        )
    for name in names or ():
        try:
            found.append(place.kernel(name))
        except kw.UnknownKernel:
            raise
        except kw.ArchiveError as error:
            broken.append(damaged(name, str(error)))
    return found, broken


@dataclass(frozen=True, slots=True)
class _Library:
    """Saved kernels to evaluate again, and where."""

    command: str
    place: kw.Workspace
    jobs: list[ReevaluationJob]
    broken: list[Reproduction]
    problems: list[str]
    workers: int | None
    results: Path | None
    cache: Path | None
    settings: kw.RunSettings

    def evaluate(
        self, decide: Decide, save: Callable[[ReevaluationJob, Reproduction], None], *, json: bool
    ) -> typer.Exit:
        """Evaluate all, print each result as it comes, and return the exit."""
        from kernelwright.agent.runner.reevaluation import Reevaluation, ResultFile
        from kernelwright.agent.setup.judge_setup import open_site
        from kernelwright.agent.setup.problem_lookup import find_references

        kernels = [job.kernel for job in self.jobs]
        backends = {kernel.record.backend for kernel in kernels}
        references = find_references(self.place.archive(say_once()), kernels, self.problems)
        found: list[Reproduction] = []

        def report(job: ReevaluationJob | None, result: Reproduction) -> None:
            if job is not None:
                save(job, result)
            found.append(result)
            if not json:
                _print(result)

        for result in self.broken:
            report(None, result)
        try:
            with open_site(
                self.settings, self.settings.evaluation, backends, cache=self.cache, at_once=self.workers
            ) as site:
                Reevaluation(
                    evaluate=site.evaluate,
                    references=references,
                    decide=decide,
                    results=ResultFile(self.results, self.command, site.machine),
                    workers=self.workers or site.at_once,
                    on_result=report,
                ).run(self.jobs)
        finally:  # an interrupt loses nothing that was measured
            if json:
                print_json(found)
            else:
                self._sum_up(found)
        return _exit(found)

    def _sum_up(self, found: list[Reproduction]) -> None:
        from kernelwright.agent.archive.reproduction import ReproductionOutcome
        from kernelwright.agent.runner.reevaluation import is_not_refuted

        total = len(self.jobs) + len(self.broken)
        if not total:
            out().print(f"no kernels below {self.place.generated.resolve()}")
            return
        counts = Counter(result.outcome for result in found)
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ReproductionOutcome if counts[outcome])
        out().print(f"{len(found)} of {total}{': ' if told else ''}{told}{_machine(found)}", soft_wrap=True)
        lost = [result.kernel for result in found if not is_not_refuted(result)]
        if lost:
            out().print(f"no longer what their scores say: {' '.join(lost)}", soft_wrap=True)


def _print(result: Reproduction) -> None:
    colours = {"reproduced": "green", "rescored": "green", "not comparable": "yellow"}
    text = f"{line(result.kernel):<14}{result.outcome:<16}{line(result.problem):<36}{line(result.why)}"
    out().print(text, style=colours.get(result.outcome, "red"), soft_wrap=True)


def _machine(found: Sequence[Reproduction]) -> str:
    machines = {
        line(f"{where.device_name}, torch {where.torch}")
        for result in found
        if result.after and (where := result.after.environment)
    }
    return f"; on {'; '.join(sorted(machines))}" if machines else ""


def _exit(found: Sequence[Reproduction]) -> typer.Exit:
    from kernelwright.agent.runner.reevaluation import is_not_refuted

    if not all(map(is_not_refuted, found)):
        return did_pass(False)
    if found and not any(result.after for result in found):
        say(f"0 of {len(found)} could be evaluated here")
        return typer.Exit(ExitCode.MACHINE)
    return did_pass(True)
