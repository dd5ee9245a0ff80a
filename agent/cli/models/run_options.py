"""The options of `kernelwright run`, grouped as its help shows them. None means: not given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agent.cli.terminal.options import plugin_name

ASK = "Whom to ask"
SEARCH = "How to search"
BOUNDS = "Bounds"
SHOW = "What is shown"

Problems = Annotated[
    list[str] | None, typer.Argument(help="Files, folders, ids or levels; `all` is all of ours.")
]
Backends = Annotated[
    list[str] | None,
    typer.Option("--backend", "-b", help="How kernels are written; may be repeated.", show_default="cuda"),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Model to ask; may be repeated.", rich_help_panel=ASK),
]
Provider = Annotated[
    str | None,
    typer.Option(
        parser=plugin_name("providers"),
        metavar="NAME",
        help="openai, replay for recorded replies, or another that is installed.",
        show_default="openai with a key or a base URL, else replay",
        rich_help_panel=ASK,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="An OpenAI-compatible endpoint.", show_default="$OPENAI_BASE_URL", rich_help_panel=ASK),
]
Fallback = Annotated[
    list[str] | None,
    typer.Option(
        metavar="base_url=URL[,model=NAME][,key_env=VARIABLE]",
        help="Endpoint to ask when those before it cannot answer; may be repeated.",
        rich_help_panel=ASK,
    ),
]
Fresh = Annotated[
    bool | None,
    typer.Option(
        "--fresh/--remembered",
        help="Ask anew what was answered before, or take the answer from the cache at no cost.",
        show_default="remembered",
        rich_help_panel=ASK,
    ),
]
Recordings = Annotated[
    Path | None,
    typer.Option(
        help="Folder that --provider replay answers from.", show_default="ours", rich_help_panel=ASK
    ),
]
Record = Annotated[Path | None, typer.Option(help="Also save replies here, for replay.", rich_help_panel=ASK)]
Temperature = Annotated[float | None, typer.Option(min=0, help="Sampling temperature.", rich_help_panel=ASK)]
ReplyTokens = Annotated[
    int | None, typer.Option(min=1, help="Most tokens of one reply.", rich_help_panel=ASK)
]
Stream = Annotated[
    bool | None,
    typer.Option("--stream/--no-stream", help="Ask for streams.", show_default="stream", rich_help_panel=ASK),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        "-s",
        parser=plugin_name("strategies"),
        metavar="NAME",
        help="What to ask next: sample, refine, evolve, or another that is installed.",
        show_default="refine",
        rich_help_panel=SEARCH,
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        "-n",
        min=1,
        help="Independent tries; evolve has options.population.",
        rich_help_panel=SEARCH,
    ),
]
Turns = Annotated[
    int | None, typer.Option("--turns", "-t", min=1, help="Turns of a conversation.", rich_help_panel=SEARCH)
]
Enough = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Speedup that ends a conversation; 0 ends it at the first right kernel.",
        rich_help_panel=SEARCH,
    ),
]
FewShot = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=16,
        help="Kept kernels of like problems that prompts show.",
        show_default="0",
        rich_help_panel=SEARCH,
    ),
]
FewShotOwn = Annotated[
    bool | None,
    typer.Option(
        "--few-shot-own",
        help="A problem's own kept kernels may be among them.",
        show_default="off",
        rich_help_panel=SEARCH,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of the strategy.", rich_help_panel=SEARCH)]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0, help="Dollars the whole run may cost; its models need a price.", rich_help_panel=BOUNDS
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Tokens the whole run may use.", rich_help_panel=BOUNDS)
]
MaxTime = Annotated[str | None, typer.Option(help="Wall time: 90s, 10m, 2h.", rich_help_panel=BOUNDS)]
MaxAttempts = Annotated[
    int | None, typer.Option(min=1, help="Replies the whole run may ask for.", rich_help_panel=BOUNDS)
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", "-c", min=1, help="Replies awaited at once.", rich_help_panel=BOUNDS),
]
Evaluators = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Candidates judged at once.",
        show_default="what keeps the devices busy",
        rich_help_panel=BOUNDS,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Hardware that prompts speak of, such as h200.", show_default="this machine", rich_help_panel=ASK
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(help="Settings in TOML, such as a run's settings.toml; options given here win."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, as in TOML: sampling.top_p=0.9. `kernelwright run --print-config` has them all.",
    ),
]
PrintConfig = Annotated[
    bool,
    typer.Option("--print-config", help="Print all settings as TOML, with what they mean; begin nothing."),
]
Resume = Annotated[
    str | None, typer.Option(help="Go on with a run: an unmistakable prefix of its id, or `last`.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show only the end.", rich_help_panel=SHOW)]
JsonLines = Annotated[
    bool, typer.Option("--json-lines", help="Events as JSON Lines on stdout.", rich_help_panel=SHOW)
]
