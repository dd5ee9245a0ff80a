"""A vetting report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from kernelwright.agent.cli.judging.check import mebibytes, summary
from kernelwright.agent.cli.terminal.console import milliseconds, plain

if TYPE_CHECKING:
    from kernelwright.evaluator import ProblemReport

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; vertical-align: top;
  border-bottom: 1px solid #8884; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.flaw { color: #c22; font-weight: 600; } .note { opacity: .75; } .sound { color: #283; }
dt { margin-top: .6rem; } dd { margin: 0 0 0 1.5rem; } small { opacity: .75; }
@media (prefers-color-scheme: dark) { .flaw { color: #f77; } .sound { color: #6c8; } }
"""


def page(vettings: Sequence[ProblemReport]) -> str:
    """The whole document."""
    rows = "\n".join(map(_row, vettings))
    details = "\n".join(part for vetting in vettings for part in _details(vetting))
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    devices = ", ".join(sorted({_text(vetting.device_name) for vetting in vettings if vetting.device_name}))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Problems checked</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Problems checked</h1>\n<p>{_text(summary(vettings))}</p>\n"
        f"<p><small>{when}; {devices}</small></p>\n"
        '<table><thead><tr><th>problem</th><th>shapes</th><th class="number">one call</th>'
        '<th class="number">memory</th><th>found</th></tr></thead><tbody>\n'
        f"{rows}\n</tbody></table>\n{details}\n</body></html>\n"
    )


def _row(vetting: ProblemReport) -> str:
    found = [f'<span class="{remark.severity}">{_text(remark.name)}</span>' for remark in vetting.remarks]
    name = _text(vetting.problem)
    if found:
        name = f'<a href="#{name}">{name}</a>'
    names = ", ".join(dict.fromkeys(found)) or '<span class="sound">sound</span>'
    time = milliseconds(vetting.measured_ms) if vetting.measured_ms is not None else "–"
    cells = (
        f"<td>{name}</td><td>{_text(vetting.shapes or 'own')}</td>"
        f'<td class="number">{time}</td><td class="number">{mebibytes(vetting.memory_bytes)}</td>'
        f"<td>{names}</td>"
    )
    return f"<tr>{cells}</tr>"


def _details(vetting: ProblemReport) -> Iterator[str]:
    if not (vetting.remarks or vetting.guessable):
        return
    name = _text(vetting.problem)
    yield f'<h2 id="{name}">{name}</h2>\n<dl>'
    for remark in vetting.remarks:
        detail = _text(remark.detail) + ("; " if remark.detail else "")
        yield f'<dt class="{remark.severity}">{_text(remark.name)}</dt>'
        yield f"<dd>{detail}{_text(remark.advice)}</dd>"
    if vetting.guessable:
        passing = ", ".join(map(_text, vetting.guessable))
        yield f"<dt>passes an allclose at 1e-2, not our comparison</dt><dd>{passing}</dd>"
    yield "</dl>"


def _text(value: str) -> str:
    return escape(plain(" ".join(value.split())))
