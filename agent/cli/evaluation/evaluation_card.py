"""One evaluation as a card for people: what was decided, on what evidence, and what protected the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.agent.cli.terminal.console import colour, milliseconds, plain, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kernelwright.evaluator import Evaluation

TAIL_LINES = 15


def card(evaluation: Evaluation) -> RenderableType:
    """A compact panel."""
    from rich.box import ROUNDED
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _rows(evaluation):
        table.add_row(label, Text(plain(value)))
    extras = [Text(plain(text), style="dim") for text in _excerpts(evaluation)]
    title = Text(f" {evaluation.status} ", style=f"bold {colour(evaluation.status)}")
    title.append(plain(f"{evaluation.problem} · {evaluation.backend} "), style="not bold default")
    return Panel(
        Group(table, *extras),
        title=title,
        title_align="left",
        box=ROUNDED,
        border_style=colour(evaluation.status),
    )


def _rows(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    if evaluation.detail:
        yield "why", evaluation.detail
    yield from _speed(evaluation)
    yield from _values(evaluation)
    for finding in evaluation.findings:
        place = f"line {finding.line}: " if finding.line is not None else ""
        yield "screening", f"{place}{finding.message} ({finding.rule})"
    for build in evaluation.builds:
        how = "from the cache" if build.cached else f"built in {seconds(build.seconds)}"
        yield "build", f"{build.name}: {how if build.ok else 'failed'}, {build.tier} headers"
    if evaluation.problem_flaws:
        yield "problem", f"flawed: {', '.join(evaluation.problem_flaws)}"
    if evaluation.attribution is not None:
        yield "track", f"{evaluation.attribution.track} ({evaluation.attribution.source})"
    yield from _counters(evaluation)
    if evaluation.sanitization is not None:
        sanitized = evaluation.sanitization
        tools = ", ".join(sanitized.tools) + (", in an earlier evaluation" if sanitized.remembered else "")
        yield "sanitized", tools if sanitized.ran else f"not run: {sanitized.reason}"
    yield from _surroundings(evaluation)


def _counters(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    counters = evaluation.counters
    if counters is None:
        return
    if not counters.ran:
        yield "counters", f"not read: {counters.reason}"
    for kernel in counters.kernels:
        units = {
            "compute": kernel.compute_percent,
            "memory": kernel.memory_percent,
            "DRAM": kernel.dram_percent,
        }
        used = ", ".join(f"{unit} {percent:.0f} %" for unit, percent in units.items() if percent is not None)
        yield "counters", f"{kernel.kernel.partition('(')[0]}: {milliseconds(kernel.milliseconds)}; {used}"


def _speed(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    measured = evaluation.measurement
    if measured is None:
        return
    low, high = measured.interval.low, measured.interval.high
    if evaluation.speedup is not None:
        yield "speedup", f"{evaluation.speedup:.2f}× over {measured.against} (95 %: {low:.2f} to {high:.2f})"
    times = [f"candidate {milliseconds(measured.candidate.median_ms)}"]
    times += [f"{name} {milliseconds(timing.median_ms)}" for name, timing in measured.baselines.items()]
    yield "time", f"{', '.join(times)}; {measured.candidate.calls} calls, {measured.inputs} inputs"


def _values(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    checked = evaluation.verification
    if checked is None:
        return
    if checked.error_ratio is not None:
        yield (
            "error",
            f"{checked.error_ratio:.3g} times the reference's own rounding, "
            f"limit {checked.limit_ratio:.3g}, {checked.trials} trials",
        )
    if checked.other_sizes:
        yield "sizes", ", ".join(f"{status} at {name}" for name, status in checked.other_sizes.items())
    if checked.gradients:
        yield "gradients", ", ".join(name.removeprefix("gradient of ") for name in checked.gradients)
    wrong = checked.mismatch
    if wrong is None:
        return
    pattern = f", {wrong.pattern}" if wrong.pattern else ""
    yield "wrong", f"{wrong.wrong:,} of {wrong.total:,} values{pattern} ({wrong.trial} inputs)"
    for index, expected, actual in zip(wrong.first_indices, wrong.expected, wrong.actual, strict=False):
        yield "", f"{wrong.output}[{', '.join(map(str, index))}] is {actual:.6g}, expected {expected:.6g}"


def _surroundings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    where = evaluation.environment
    if where is not None:
        box = where.sandbox
        seccomp = "seccomp" if box.seccomp else "no seccomp"
        yield "where", f"{where.device_name}, {where.threads} threads, torch {where.torch}"
        yield "sandbox", f"{box.tier}, {seccomp}, {box.limits}, {box.uid} uid"
    if evaluation.stage_seconds:
        spent = evaluation.stage_seconds
        order = [stage for stage in type(evaluation.stage) if stage in spent]
        yield "stages", ", ".join(f"{stage} {seconds(spent[stage])}" for stage in order)


def _excerpts(evaluation: Evaluation) -> Iterator[str]:
    for build in evaluation.builds:
        if not build.ok and build.log:
            yield "\n" + "\n".join(build.log.splitlines()[:TAIL_LINES])
    if evaluation.output_tail.strip() and evaluation.speedup is None:
        yield "\nthe candidate printed:\n" + "\n".join(evaluation.output_tail.splitlines()[-TAIL_LINES:])
