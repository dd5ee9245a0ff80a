"""`kernelwright problems check`: flaws of problems, found before anybody solves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import kernelwright as kw
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import line, note_place, out, print_json, print_table
from kernelwright.agent.cli.terminal.failures import did_pass
from kernelwright.agent.records.durations import milliseconds

if TYPE_CHECKING:
    from kernelwright.evaluator import ProblemReport


@options.with_settings(
    *("evaluation.shapes", "evaluation.device", "evaluation.dtype", "evaluation.math", "evaluation.sandbox"),
    *("evaluation.sanitize", "evaluation.limits"),
)
def check(
    given: options.Given,
    names: options.Problems = None,
    html: Annotated[Path | None, options.option("Write a page for browsers.", metavar="FILE")] = None,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Look for flaws in problems: answers that pass without computing, nondeterminism, wrong sizes.

    Works on any folder of KernelBench-format files. A flaw marks every later score of the problem here.
    Problems without the shapes that --shapes names keep their own sizes.

    Exit status 1 means that at least one was found.
    """
    from kernelwright.evaluator import ProblemReport

    config = given.run_settings().evaluation
    found = list(_read(names or ["all"]))
    reports: list[ProblemReport] = []
    with kw.Evaluator(cache=cache) as evaluator:
        for number, entry in enumerate(found, 1):
            if isinstance(entry, ProblemReport):
                reports.append(entry)
                continue
            note_place(number, len(found), entry.id)
            reports.append(_check(evaluator, entry, config))
    if html is not None:
        html.write_text(_page(reports), "utf-8")
    if json:
        print_json([_plain(report) for report in reports])
    else:
        _print(reports)
    raise did_pass(not any(report.flaws for report in reports))


def _read(names: Sequence[str]) -> Iterator[kw.Problem | ProblemReport]:
    """Problems, and reports on malformed files, which do not hide the others of a folder."""
    from kernelwright.agent.setup.problem_lookup import read_problems

    for name in names:
        path = Path(name).expanduser()
        if not path.exists():
            yield from read_problems([name])
            continue
        for file in kw.find_problems([path]):
            try:
                yield kw.read_problem(file)
            except kw.ProblemError as error:
                yield _flawed(file.stem, "malformed", error)


def fitting(problem: kw.Problem, config: kw.EvaluationConfig) -> kw.EvaluationConfig:
    """The same settings; a problem without the named shapes keeps its own sizes."""
    return config if config.shapes in problem.shapes else config.model_copy(update={"shapes": None})


def _check(evaluator: kw.Evaluator, problem: kw.Problem, config: kw.EvaluationConfig) -> ProblemReport:
    try:
        return evaluator.inspect(problem, fitting(problem, config))
    except (kw.ConfigError, kw.MachineError):
        raise
    except kw.EvaluatorError as error:
        # A problem that crashes the evaluator says nothing of the others.
        return _flawed(problem.id, "crashes", error, problem.sha)


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
    styles = ["red" if report.flaws else "" for report in reports]
    print_table("problem shapes >one_call >memory found", map(_row, reports), styles)
    for report in reports:
        if report.flaws:
            out().print(f"\n{line(report.problem)}", style="bold")
            for remark in report.remarks:
                detail = f": {line(remark.detail)}" if remark.detail else ""
                out().print(f"  {remark.name}{detail}; {remark.advice}")
    out().print(f"\n{_summary(reports)}", style="bold red" if any(styles) else "bold green")


def _page(reports: Sequence[ProblemReport]) -> str:
    """The reports as one HTML file, in the leaderboard page's style."""
    from markupsafe import Markup

    from kernelwright.agent.leaderboard.html.page_template import ASSETS, template

    def safe(value: object) -> object:
        return line(value) if type(value) is str else value

    return template(Path(__file__).with_name("check_page.html"), safe).render(
        reports=[(report, _row(report)) for report in reports],
        summary=_summary(reports),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        devices=", ".join(sorted({report.device_name for report in reports if report.device_name})),
        style=Markup((ASSETS / "page.css").read_text("utf-8")),  # our own file
    )


def _summary(reports: Sequence[ProblemReport]) -> str:
    """One line: the number of problems, of sound ones, and of each flaw."""
    flawed = [report for report in reports if report.flaws]
    counts = Counter(name for report in flawed for name in {remark.name for remark in report.flaws})
    named = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    many = "problem" if len(reports) == 1 else "problems"
    return f"{len(reports)} {many}: {len(reports) - len(flawed)} sound, {len(flawed)} flawed" + (
        f" ({named})" if named else ""
    )


def _row(report: ProblemReport) -> tuple[str, ...]:
    """Problem, shapes, time of one call, memory, and names of flaws and (notes)."""
    names = [*(remark.name for remark in report.flaws), *(f"({remark.name})" for remark in report.notes)]
    return (
        report.problem,
        report.shapes or "own",
        milliseconds(report.measured_ms) if report.measured_ms is not None else "-",
        _size(report.memory_bytes),
        ", ".join(dict.fromkeys(names)) or "sound",
    )


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 2**20:,.1f} MiB" if size < 2**30 else f"{size / 2**30:,.1f} GiB"
