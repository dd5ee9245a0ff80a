"""`kernelwright problems check`: flaws of problems, found before anybody solves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.evaluation.check_page import summary, table_row
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import did_pass

if TYPE_CHECKING:
    from kernelwright.evaluator import EvaluationConfig, Evaluator, Problem, ProblemFlaw, ProblemReport


@options.with_settings(
    *("evaluation.shapes", "evaluation.device", "evaluation.dtype", "evaluation.math", "evaluation.sandbox"),
    *("evaluation.sanitize", "evaluation.limits"),
)
def check(
    given: options.Given,
    names: options.Problems = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page for browsers.")] = None,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Look for flaws in problems: answers that pass without computing, nondeterminism, wrong sizes.

    Works on any folder of KernelBench-format files. A flaw marks every later score of the problem here.
    Problems without the shapes that --shapes names keep their own sizes.

    Exit status 1 means that at least one was found.
    """
    from kernelwright.agent.cli.terminal.console import is_watched, notes
    from kernelwright.evaluator import Evaluator

    config = given.evaluation()
    reports: list[ProblemReport] = []
    files = list(_read(names or ["all"]))
    with Evaluator(cache=cache) as evaluator:
        for number, entry in enumerate(files, 1):
            if is_watched():
                notes().print(f"{number}/{len(files)}  {entry.id}", style="dim")
            reports.append(_check(evaluator, entry, config))
    if html is not None:
        from kernelwright.agent.cli.evaluation.check_page import page

        html.write_text(page(reports), "utf-8")
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        print(strict_json([_plain(report) for report in reports], indent=2))
    else:
        _print(reports)
    raise did_pass(not any(report.flaws for report in reports))


@dataclass(frozen=True, slots=True)
class _Malformed:
    id: str
    error: Exception


def _read(names: Sequence[str]) -> Iterator[Problem | _Malformed]:
    # A malformed file in a folder does not hide the others.
    from kernelwright.agent.setup.problem_lookup import read_problems
    from kernelwright.evaluator import ProblemError, find_problems, read_problem

    for name in names:
        path = Path(name).expanduser()
        if not path.exists():
            yield from read_problems([name])
            continue
        for file in find_problems([path]):
            try:
                yield read_problem(file)
            except ProblemError as error:
                yield _Malformed(file.stem, error)


def _check(evaluator: Evaluator, entry: Problem | _Malformed, config: EvaluationConfig) -> ProblemReport:
    from kernelwright.evaluator import ConfigError, EvaluatorError, MachineError

    if isinstance(entry, _Malformed):
        return _flawed(entry.id, "malformed", entry.error)
    if config.shapes not in entry.shapes:
        config = config.model_copy(update={"shapes": None})
    try:
        return evaluator.inspect(entry, config)
    except (ConfigError, MachineError):
        raise
    except EvaluatorError as error:
        # A problem that crashes the evaluator says nothing of the others.
        return _flawed(entry.id, "crashes", error, entry.sha)


def _flawed(problem: str, name: str, error: Exception, sha: str = "") -> ProblemReport:
    from kernelwright.evaluator import ProblemFlaw, ProblemReport, Severity

    remark = ProblemFlaw(name=name, severity=Severity.FLAW, detail=str(error))
    return ProblemReport(problem=problem, problem_sha=sha, device="", remarks=(remark,))


def _plain(report: ProblemReport) -> dict[str, object]:
    """The record, with the names of flaws and notes beside it and the way out in each remark."""
    return report.model_dump(mode="json") | {
        "remarks": [remark.model_dump(mode="json") | {"advice": remark.advice} for remark in report.remarks],
        "flaws": [remark.name for remark in report.flaws],
        "notes": [remark.name for remark in report.notes],
    }


def _print(reports: list[ProblemReport]) -> None:
    from kernelwright.agent.cli.terminal.console import line, out, print_table

    console = out()
    rows, styles = [], []
    for report in reports:
        rows.append(table_row(report))
        styles.append("red" if report.flaws else "")
    print_table("problem shapes >one_call >memory found", rows, styles)
    flawed = [report for report in reports if report.flaws]
    for report in flawed:
        console.print(f"\n{line(report.problem)}", style="bold")
        for remark in report.remarks:
            console.print(f"  {_sentence(remark)}")
    console.print(f"\n{summary(reports)}", style="bold red" if flawed else "bold green")


def _sentence(remark: ProblemFlaw) -> str:
    from kernelwright.agent.cli.terminal.console import line

    detail = f": {line(remark.detail)}" if remark.detail else ""
    return f"{remark.name}{detail}; {remark.advice}"
