"""Command-line options: those made from the settings models, and the few that several commands share.

A setting is declared once, in its model; `SETTINGS` only says which settings have an option, how it is spelt
and how its text is read. `@with_settings` adds the options to a command, which gets them as one `Given`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

import kernelwright as kw
from kernelwright.agent.cli.terminal import completion
from kernelwright.agent.cli.terminal.declared_settings import declared
from kernelwright.agent.cli.terminal.option_values import (
    absolute,
    parse_fallback,
    parse_limits,
    parse_seconds,
    passes,
    split,
)

MODEL, SEARCH, BUDGET, EVALUATION = "Model and endpoint", "Search", "Budget", "Evaluation"
BULK, OUTPUT, CLUSTER = "Batch API", "Output", "Ray cluster"


@dataclass(frozen=True, slots=True)
class SettingOption:
    """A setting as a command-line option."""

    flags: str
    panel: str
    read: Callable[[Any], object] | None = None  # Any: text, a list of texts, or a flag
    metavar: str = ""
    complete: Callable[[str], list[str]] | None = None


SETTINGS: Final = MappingProxyType(
    {
        "backends": SettingOption(
            "--backend -b", "Options", split, metavar="NAME", complete=completion.backends
        ),
        "models": SettingOption("--model -m", MODEL, tuple),
        "provider": SettingOption("--provider", MODEL, metavar="NAME", complete=completion.providers),
        "base_url": SettingOption("--base-url", MODEL, metavar="URL"),
        "fallbacks": SettingOption(
            "--fallback", MODEL, parse_fallback, metavar="base_url=URL[,model=NAME][,key_env=VARIABLE]"
        ),
        "fresh": SettingOption("--fresh/--remembered", MODEL),
        "recordings": SettingOption("--recordings", MODEL, absolute, metavar="FOLDER"),
        "target": SettingOption("--target", MODEL),
        "sampling.temperature": SettingOption("--temperature", MODEL),
        "sampling.max_tokens": SettingOption("--reply-tokens", MODEL),
        "stream": SettingOption("--stream/--no-stream", MODEL),
        "batch_api": SettingOption("--batch-api", BULK),
        "strategy": SettingOption("--strategy -s", SEARCH, metavar="NAME", complete=completion.strategies),
        "options.samples": SettingOption("--samples -n", SEARCH),
        "options.turns": SettingOption("--turns -t", SEARCH),
        "options.enough": SettingOption("--enough", SEARCH),
        "seed": SettingOption("--seed", SEARCH),
        "few_shot": SettingOption("--few-shot", SEARCH),
        "few_shot_own": SettingOption("--few-shot-own", SEARCH),
        "budget.cost_usd": SettingOption("--max-cost", BUDGET),
        "budget.tokens": SettingOption("--max-tokens", BUDGET),
        "budget.seconds": SettingOption("--max-time", BUDGET, parse_seconds, metavar="90s|10m|2h"),
        "budget.attempts": SettingOption("--max-attempts", BUDGET),
        "completions": SettingOption("--concurrency -c", BUDGET),
        "evaluators": SettingOption("--evaluators", BUDGET),
        "evaluation.device": SettingOption("--device", EVALUATION),
        "evaluation.shapes": SettingOption("--shapes", EVALUATION),
        "evaluation.dtype": SettingOption("--dtype", EVALUATION),
        "evaluation.math": SettingOption("--math", EVALUATION),
        "evaluation.passes": SettingOption("--backward/--forward", EVALUATION, passes),
        "evaluation.baselines": SettingOption("--baselines", EVALUATION, split),
        "evaluation.sandbox": SettingOption("--sandbox", EVALUATION),
        "evaluation.measure": SettingOption("--time/--no-time", EVALUATION),
        "evaluation.sanitize": SettingOption("--sanitize", EVALUATION),
        "evaluation.counters": SettingOption("--counters/--no-counters", EVALUATION),
        "evaluation.limits": SettingOption("--limit", EVALUATION, parse_limits, metavar="NAME=VALUE"),
        "judges": SettingOption("--judge", EVALUATION, tuple, metavar="URL"),
        "judge_device": SettingOption("--judge-device", EVALUATION, metavar="NAME"),
        "engine": SettingOption("--engine", CLUSTER),
        "address": SettingOption("--address", CLUSTER, metavar="ADDRESS"),
        "cluster_judges": SettingOption("--cluster-judges", CLUSTER),
        "cluster_builders": SettingOption("--cluster-builders", CLUSTER),
        "insecure_cluster": SettingOption("--insecure-cluster", CLUSTER),
        "confirm": SettingOption("--confirm/--no-confirm", EVALUATION),
        "keep_slower": SettingOption("--keep-slower", EVALUATION),
        "plain_build": SettingOption("--plain-build/--no-plain-build", EVALUATION),
    }
)
"""Settings that have an option, in the order help shows them; `--set` reaches the others."""

CLUSTERS: Final = ("engine", "address", "cluster_judges", "cluster_builders", "insecure_cluster")
JUDGES: Final = ("judges", "judge_device", *CLUSTERS)
POLICY: Final = (*(path for path in SETTINGS if path.startswith("evaluation.")), *JUDGES)
OPERATOR: Final = ("evaluation.device", "evaluation.sandbox", "evaluation.limits", *JUDGES)
"""Settings that a score never brings along."""
RUN: Final = tuple(path for path in SETTINGS if path != "batch_api")


def option(help: str, *flags: str, panel: str | None = None, **more: Any) -> Any:  # Any: as typer's own
    """An option of a command, its help first."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, **more)


def flag(help: str, name: str, *, panel: str | None = None, **more: Any) -> Any:  # Any: as typer's own
    """An option that is given or not."""
    return option(help, name, panel=panel, metavar="", **more)


def argument(help: str, metavar: str | None = None, **more: Any) -> Any:  # Any: as typer's own
    """An argument of a command, its help first."""
    return typer.Argument(help=help, metavar=metavar, **more)


def _problem(help: str) -> Any:  # Any: as typer's own
    return option(help, "--problem", "-p", metavar="PROBLEM", autocompletion=completion.problems)


Names = list[str] | None
"""Values of an option that may be repeated."""

Json = Annotated[bool, flag("Print the answer as JSON.", "--json")]
Workspace = Annotated[
    Path,
    option(
        "Folder that holds generated/ and runs/. Default: the current one.",
        "--workspace",
        "-w",
        envvar="KERNELWRIGHT_WORKSPACE",
        metavar="FOLDER",
        show_default=False,
    ),
]
Cache = Annotated[
    Path | None,
    option(
        "Folder of builds, baselines and replies. Default: ~/.cache/kernelwright.",
        envvar="KERNELWRIGHT_CACHE",
        metavar="FOLDER",
    ),
]
Problem = Annotated[
    str, argument("A file, an id, or a unique part of an id.", autocompletion=completion.problems)
]
Problems = Annotated[
    Names,
    argument(
        "Files, folders, ids or levels. Default: all installed problems.",
        "PROBLEM...",
        autocompletion=completion.problems,
    ),
]
ProblemName = Annotated[str, _problem("Problem: a file, an id, or a unique part of an id.")]
ProblemNames = Annotated[
    Names, _problem("Problems: files, folders, ids or levels; may be repeated. Default: all installed ones.")
]
ProblemFilter = Annotated[Names, _problem("Only problems whose id contains this; may be repeated.")]
BackendFilter = Annotated[Names, option("Only these backends.", "--backend", "-b")]
ModelFilter = Annotated[Names, option("Only these models.", "--model", "-m")]
RunFilter = Annotated[
    str | None,
    option(
        "Only this run: its id, a unique prefix, or `last`.", metavar="RUN", autocompletion=completion.runs
    ),
]
Out = Annotated[Path, option("Folder to write; new or empty.", "--out", "-o", metavar="FOLDER")]


@dataclass(frozen=True, slots=True)
class Given:
    """The settings that options gave, and the options that gave them."""

    values: dict[str, Any] = field(default_factory=dict)  # Any: as read from texts
    """Nested, as in a settings file."""
    flags: dict[str, str] = field(default_factory=dict)
    """The option behind a setting, by the setting's path."""

    def run_settings(self, config: Path | None = None, assignments: Sequence[str] = ()) -> kw.RunSettings:
        """These settings over those of `--set`, over those of a settings file; raises UsageError."""
        from kernelwright.agent.setup.run_settings import merge, parse_assignments, read_settings

        return read_settings(config, merge(parse_assignments(assignments), self.values), self.flags)

    def with_setting(self, path: str, value: object) -> Given:
        """The same with one setting replaced."""
        from kernelwright.agent.setup.run_settings import merge

        return Given(merge(self.values, _nested(path, value)), self.flags)


def with_settings(
    *paths: str, table: Mapping[str, SettingOption] = SETTINGS
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first parameter is `given: Given`, an option for each of these settings."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        names = {path: path.replace(".", "_") for path in paths}
        made = [_parameter(path, name, table[path]) for path, name in names.items()]
        every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*made, *parameters)]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            command(_given({path: values.pop(name) for path, name in names.items()}, table), **values)

        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {one.name: one.annotation for one in every}
        return run

    return decorate


def _parameter(path: str, name: str, made: SettingOption) -> inspect.Parameter:
    setting = declared(path)
    is_flag = setting.is_flag or made.read is passes
    takes_many = (setting.is_list or made.read is parse_limits) and not is_flag
    default = f" Default: {setting.default}." if setting.default and not is_flag else ""
    info = option(
        setting.help + default,
        *made.flags.split(),
        panel=made.panel,
        metavar="" if is_flag else made.metavar or setting.metavar,
        show_default=False,
        autocompletion=made.complete or (completion.among(setting.choices) if setting.choices else None),
    )
    kind: Any = bool | None if is_flag else Names if takes_many else str | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info]
    )


def _given(found: Mapping[str, Any], table: Mapping[str, SettingOption]) -> Given:
    given = Given()
    for path, value in found.items():
        if value is not None and value != []:
            read = table[path].read
            given = given.with_setting(path, read(value) if read else _number(path, value))
            given.flags[path] = table[path].flags.partition(" ")[0].partition("/")[0]
    return given


def _nested(path: str, value: object) -> dict[str, object]:
    first, _, rest = path.partition(".")
    return {first: _nested(rest, value) if rest else value}


def _number(path: str, value: object) -> object:
    """A number where the setting is one and the text says one; the models refuse what is left."""
    kind = declared(path).annotation.partition(" ")[0]
    try:
        return {"int": int, "float": float, "Decimal": float}.get(kind, lambda same: same)(value)
    except (TypeError, ValueError):
        return value
