"""Options that several commands share, and the policy they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kernelwright.agent.cli.terminal.failures import Usage

if TYPE_CHECKING:
    from pydantic import ValidationError

    from kernelwright.evaluator import EvaluationConfig

POLICY = "How it is judged"


def plugin_name(group: str) -> Callable[[str], str]:
    """Accepts only registered names of a group."""

    def parse(name: str) -> str:
        from kernelwright.evaluator import plugins

        if name not in plugins(group):
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, plugins(group)))}.")
        return name

    return parse


Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON on standard output.")]
Workspace = Annotated[
    Path,
    typer.Option(
        "--workspace",
        "-w",
        envvar="KERNELWRIGHT_WORKSPACE",
        help="Folder that holds generated/ and runs/.",
        show_default="the current folder",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        envvar="KERNELWRIGHT_CACHE",
        help="Folder of finished builds and remembered baselines.",
        show_default="~/.cache/kernelwright",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda:N, several with commas, or cuda for all GPUs.",
        show_default="what the backend needs",
        rich_help_panel=POLICY,
    ),
]
Shapes = Annotated[
    str | None,
    typer.Option(
        help="A name in the problem's SHAPES.",
        show_default="the problem's own sizes",
        rich_help_panel=POLICY,
    ),
]
CastTo = Annotated[
    Literal["as_is", "fp32", "bf16", "fp16"] | None,
    typer.Option(
        "--dtype",
        help="Cast the problem's floating tensors.",
        show_default="as_is",
        rich_help_panel=POLICY,
    ),
]
Backward = Annotated[
    bool | None,
    typer.Option(
        "--backward/--forward",
        help="Verify and time the gradients of inputs and parameters too.",
        show_default="forward",
        rich_help_panel=POLICY,
    ),
]
Precision = Annotated[
    Literal["fp32", "tf32", "bf16", "fp16"] | None,
    typer.Option(
        "--math",
        help="Precision a candidate may use inside.",
        show_default="fp32",
        rich_help_panel=POLICY,
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        help="Timings of the reference, separated by commas.",
        show_default="eager,compile",
        rich_help_panel=POLICY,
    ),
]
Sandbox = Annotated[
    Literal["bubblewrap", "confined", "none"] | None,
    typer.Option(
        help="Sandbox tier; none protects nothing.",
        show_default="the strongest this machine has",
        rich_help_panel=POLICY,
    ),
]
Time = Annotated[
    bool | None,
    typer.Option(
        "--time/--no-time", help="Measure speed, or verify only.", show_default="time", rich_help_panel=POLICY
    ),
]
Sanitizing = Annotated[
    Literal["auto", "on", "off"] | None,
    typer.Option(
        "--sanitize",
        help="Run sanitizers on what passed; auto does so on a GPU, and for kernels that a run keeps.",
        show_default="auto",
        rich_help_panel=POLICY,
    ),
]
Counting = Annotated[
    bool | None,
    typer.Option(
        "--counters/--no-counters",
        help="Read a GPU's hardware counters with ncu for what passed, where users may read them.",
        show_default="where a next turn is told of them",
        rich_help_panel=POLICY,
    ),
]
PlainBuild = Annotated[
    bool | None,
    typer.Option(
        "--plain-build/--no-plain-build",
        help="Keep only what also builds with torch's own headers.",
        show_default="plain-build",
        rich_help_panel=POLICY,
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A bound on one evaluation, such as total_s=60 or memory_gib=4; may be repeated.",
        rich_help_panel=POLICY,
    ),
]


def policy(
    *,
    device: str | None = None,
    shapes: str | None = None,
    dtype: str | None = None,
    math: str | None = None,
    backward: bool | None = None,
    baselines: str | None = None,
    sandbox: str | None = None,
    time: bool | None = None,
    sanitize: str | None = None,
    counters: bool | None = None,
    limit: Sequence[str] | None = None,
) -> dict[str, object]:
    """The fields of an evaluation's policy that were given.

    Raises:
        Usage: a limit that is not NAME=VALUE.
    """
    return present(
        {
            "device": device,
            "passes": None if backward is None else "forward_backward" if backward else "forward",
            "shapes": shapes,
            "dtype": dtype,
            "math": math,
            "baselines": _split(baselines) if baselines is not None else None,
            "sandbox": sandbox,
            "measure": time,
            "sanitize": sanitize,
            "counters": counters,
            "limits": dict(_split_limit(text) for text in limit) if limit else None,
        }
    )


def evaluation_config(given: Mapping[str, object]) -> EvaluationConfig:
    """The policy record that given fields and defaults add up to.

    Raises:
        Usage: a value the policy does not allow.
    """
    from pydantic import ValidationError

    from kernelwright.evaluator import EvaluationConfig

    try:
        return EvaluationConfig.model_validate(given)
    except ValidationError as error:
        raise Usage(explain(error)) from None


def present(values: Mapping[str, object]) -> dict[str, object]:
    """What was given: the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def explain(error: ValidationError) -> str:
    """The first thing wrong in a record, as one line."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}, not {first['input']!r}"


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _split_limit(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Usage(f"--limit {text!r} is not NAME=VALUE; an example: --limit total_s=60")
    return name.strip(), value.strip()
