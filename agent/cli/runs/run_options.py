"""Options and steps that `run`, `generate` and `experiment` share."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import kernelwright as kw
from kernelwright.agent.cli.terminal import completion
from kernelwright.agent.cli.terminal.console import is_watched
from kernelwright.agent.cli.terminal.failures import LOGGERS, say
from kernelwright.agent.cli.terminal.options import MODEL, OUTPUT, Given, Names, argument, flag, option
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.setup.preparation import PreparedRun, RunPlace
    from kernelwright.agent.setup.run_batch import Watch

Problems = Annotated[
    Names,
    argument(
        "Files, folders, ids or levels; `all` is all installed problems.",
        "PROBLEM...",
        autocompletion=completion.problems,
    ),
]
Record = Annotated[Path | None, option("Also save replies here, for replay.", metavar="FOLDER", panel=MODEL)]
Config = Annotated[
    Path | None,
    option("Settings in TOML, such as a run's settings.toml; options win over it.", metavar="FILE"),
]
Assignments = Annotated[
    Names,
    option(
        "A setting, as in TOML: sampling.top_p=0.9. `run --print-config` lists them all.",
        "--set",
        metavar="NAME=VALUE",
    ),
]
PrintConfig = Annotated[bool, flag("Print all settings as TOML, explained; begin nothing.", "--print-config")]
Resume = Annotated[
    str | None,
    option(
        "Resume a run: a unique prefix of its id, or `last`.", metavar="RUN", autocompletion=completion.runs
    ),
]
Quiet = Annotated[bool, option("Print only the end.", "--quiet", "-q", metavar="", panel=OUTPUT)]
JsonLines = Annotated[bool, flag("Print events as JSON Lines.", "--json-lines", panel=OUTPUT)]


def read(
    given: Given,
    problems: Sequence[str] | None,
    config: Path | None,
    assign: Sequence[str] | None,
    resume: str | None,
) -> kw.RunSettings:
    """The settings of a run, from everything the command line gave."""
    if resume is not None and config is not None:
        raise UsageError("--resume goes on with the plan of a run; leave out: --config")
    if problems:
        given = given.with_setting("problems", tuple(problems))
    return given.run_settings(config, assign or ())


def prepare_watched(place: RunPlace, settings: kw.RunSettings, resume: str | None) -> PreparedRun:
    """The run to work on; whoever watches is told when its sizes take long here. Raises as `prepare` does."""
    from kernelwright.agent.setup.preparation import prepare
    from kernelwright.agent.setup.problem_lookup import GPU_SIZED, are_meant_for_gpus

    work = prepare(place, settings, resume=resume)
    plan = work.plan
    if (
        resume is None
        and is_watched()
        and are_meant_for_gpus(work.problems, plan.backends, plan.config.shapes)
    ):
        say(GPU_SIZED)
    return work


@contextmanager
def watching(*, quiet: bool, json_lines: bool = False) -> Iterator[Watch]:
    """Follow a run's events on the terminal, as JSON Lines, or not at all."""
    from kernelwright.agent.cli.terminal.progress import ProgressView
    from kernelwright.agent.runner.events import event_line

    if json_lines:
        yield lambda event: print(event_line(event), flush=True)
    elif quiet:
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.WARNING)
        yield lambda event: None
    else:
        with ProgressView() as view:
            yield view
