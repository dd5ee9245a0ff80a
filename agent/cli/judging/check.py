"""`kernelwright problems check`: whether problems are worth solving, before anybody solves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import did_pass

if TYPE_CHECKING:
    from rich.table import Table

    from kernelwright.evaluator import Evaluator, Problem, ProblemFlaw, ProblemReport

Shapes = Annotated[
    str | None,
    typer.Option(
        help="A name in SHAPES; problems without it keep their own sizes.", show_default="own sizes"
    ),
]


def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, ids or levels.", show_default="all of ours")
    ] = None,
    shapes: Shapes = None,
    device: options.Device = None,
    dtype: options.CastTo = None,
    math: options.Precision = None,
    sandbox: options.Sandbox = None,
    sanitize: options.Sanitizing = None,
    limit: options.Limit = None,
    html: Annotated[Path | None, typer.Option(help="Write a report for browsers to this file.")] = None,
    cache: options.Cache = None,
    json: options.Json = False,
) -> None:
    """Look for flaws in problems: answers that pass without computing, nondeterminism, wrong sizes.

    Works on any folder of KernelBench-format files. A flaw marks every later score of the problem here.

    Exit status 1 means that at least one was found.
    """
    from kernelwright.agent.cli.terminal.console import is_watched, notes
    from kernelwright.evaluator import Evaluator

    given = options.policy(
        device=device,
        shapes=None,
        dtype=dtype,
        math=math,
        baselines=None,
        sandbox=sandbox,
        sanitize=sanitize,
        time=None,
        limit=limit,
    )
    vettings: list[ProblemReport] = []
    files = list(_read(names or ["all"]))
    with Evaluator(cache=cache) as evaluator:
        for number, entry in enumerate(files, 1):
            if is_watched():
                notes().print(f"{number}/{len(files)}  {entry.id}", style="dim")
            vettings.append(_vet(evaluator, entry, given, shapes))
    if html is not None:
        from kernelwright.agent.cli.judging.check_page import page

        html.write_text(page(vettings), "utf-8")
    if json:
        from kernelwright.agent.records.strict_json import strict_json

        print(strict_json([_plain(vetting) for vetting in vettings], indent=2))
    else:
        _print(vettings)
    raise did_pass(not any(vetting.flaws for vetting in vettings))


class _Malformed:
    """A file that is not a problem."""

    def __init__(self, path: Path, error: Exception) -> None:
        self.id = path.stem
        self.why = str(error)


def _read(names: Sequence[str]) -> Iterator[Problem | _Malformed]:
    """Every problem that the names mean; a bad file in a folder does not hide the others."""
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
                yield _Malformed(file, error)


def _vet(
    evaluator: Evaluator, entry: Problem | _Malformed, given: dict[str, object], shapes: str | None
) -> ProblemReport:
    from kernelwright.evaluator import (
        ConfigError,
        EvaluatorError,
        MachineError,
        ProblemFlaw,
        ProblemReport,
        Severity,
    )

    if isinstance(entry, _Malformed):
        remark = ProblemFlaw(name="malformed", severity=Severity.FLAW, detail=entry.why)
        return ProblemReport(problem=entry.id, problem_sha="", device="", remarks=(remark,))
    chosen = {"shapes": shapes} if shapes in entry.shapes else {}
    try:
        return evaluator.inspect(entry, options.evaluation_config(given | chosen))
    except (ConfigError, MachineError):
        raise
    except EvaluatorError as error:
        # What one problem does to the evaluator says nothing of the others.
        remark = ProblemFlaw(name="crashes", severity=Severity.FLAW, detail=str(error))
        return ProblemReport(problem=entry.id, problem_sha=entry.sha, device="", remarks=(remark,))


def _plain(vetting: ProblemReport) -> dict[str, object]:
    """The record, with the names of flaws and notes beside it and the way out in each remark."""
    return vetting.model_dump(mode="json") | {
        "remarks": [remark.model_dump(mode="json") | {"advice": remark.advice} for remark in vetting.remarks],
        "flaws": [remark.name for remark in vetting.flaws],
        "notes": [remark.name for remark in vetting.notes],
    }


def _print(vettings: list[ProblemReport]) -> None:
    from kernelwright.agent.cli.terminal.console import out

    console = out()
    console.print(_table(vettings))
    flawed = [vetting for vetting in vettings if vetting.flaws]
    for vetting in flawed:
        console.print(f"\n{vetting.problem}", style="bold")
        for remark in vetting.remarks:
            console.print(f"  {_sentence(remark)}")
    console.print(f"\n{summary(vettings)}", style="bold red" if flawed else "bold green")


def _table(vettings: list[ProblemReport]) -> Table:
    from rich.table import Table

    from kernelwright.agent.cli.terminal.console import milliseconds

    table = Table(box=None, pad_edge=False)
    for heading in ("problem", "shapes", "one call", "memory", "found"):
        table.add_column(heading, overflow="fold", justify="right" if heading in _RIGHT else "left")
    for vetting in vettings:
        found = [remark.name for remark in vetting.flaws]
        noted = [f"({remark.name})" for remark in vetting.notes]
        table.add_row(
            vetting.problem,
            vetting.shapes or "own",
            milliseconds(vetting.measured_ms) if vetting.measured_ms is not None else "-",
            mebibytes(vetting.memory_bytes),
            ", ".join(dict.fromkeys([*found, *noted])) or "sound",
            style="red" if found else "",
        )
    return table


_RIGHT = frozenset(("one call", "memory"))


def _sentence(remark: ProblemFlaw) -> str:
    from kernelwright.agent.cli.terminal.console import plain

    detail = f": {plain(' '.join(remark.detail.split()))}" if remark.detail else ""
    return f"{remark.name}{detail}; {remark.advice}"


def summary(vettings: Sequence[ProblemReport]) -> str:
    """One line: how many, how many sound, and what is wrong with the others."""
    flawed = [vetting for vetting in vettings if vetting.flaws]
    counts = Counter(name for vetting in flawed for name in {remark.name for remark in vetting.flaws})
    named = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    many = "problem" if len(vettings) == 1 else "problems"
    return f"{len(vettings)} {many}: {len(vettings) - len(flawed)} sound, {len(flawed)} flawed" + (
        f" ({named})" if named else ""
    )


def mebibytes(size: int | None) -> str:
    """Memory for people."""
    if size is None:
        return "-"
    return f"{size / 2**20:,.1f} MiB" if size < 2**30 else f"{size / 2**30:,.1f} GiB"
