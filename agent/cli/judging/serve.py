"""`kernelwright serve`: judge over HTTP, for trainers and other machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.durations import parse_seconds
from kernelwright.agent.cli.terminal.failures import Usage, say

TOKEN_VARIABLE: Final = "KERNELWRIGHT_SERVICE_TOKEN"
SHORTEST_TOKEN: Final = 16
_SERVING = "How it serves"
_BOUNDS = "What a client may use"


def serve(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, ids or levels clients may name.", show_default="all of ours"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=_SERVING)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.", rich_help_panel=_SERVING)
    ] = 8080,
    state: Annotated[
        Path,
        typer.Option(
            envvar="KERNELWRIGHT_SERVICE_STATE",
            help="Folder of what was accepted and judged; a restart goes on with it.",
            rich_help_panel=_SERVING,
        ),
    ] = Path("service"),
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="cpu or cuda:N; may be repeated.",
            show_default="every GPU, else cpu",
            rich_help_panel=_SERVING,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Evaluations at once on each device.",
            show_default="what keeps it busy",
            rich_help_panel=_SERVING,
        ),
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            help="Forget evaluations this long after their end, such as 30d.",
            show_default="never",
            rich_help_panel=_SERVING,
        ),
    ] = None,
    drain: Annotated[
        str,
        typer.Option(help="Time for running evaluations to end after a signal.", rich_help_panel=_SERVING),
    ] = "60s",
    insecure_no_token: Annotated[
        bool,
        typer.Option(
            "--insecure-no-token",
            help="Listen beyond the loopback without a token: whoever reaches it may run code here.",
            rich_help_panel=_SERVING,
        ),
    ] = False,
    allow_problem_sources: Annotated[
        bool,
        typer.Option(
            "--allow-problem-sources",
            help="Let clients send problems of their own.",
            rich_help_panel=_BOUNDS,
        ),
    ] = False,
    queue: Annotated[
        int, typer.Option(min=1, max=100_000, help="Evaluations that may wait.", rich_help_panel=_BOUNDS)
    ] = 1000,
    max_body_mib: Annotated[
        int, typer.Option(min=1, max=16, help="Largest request.", rich_help_panel=_BOUNDS)
    ] = 4,
    max_wait: Annotated[
        str, typer.Option(help="Longest time a client may wait in one request.", rich_help_panel=_BOUNDS)
    ] = "60s",
    baselines: options.Baselines = None,
    sandbox: options.Sandbox = None,
    sanitize: options.Sanitizing = None,
    limit: options.Limit = None,
    cache: options.Cache = None,
) -> None:
    """Judge candidates over HTTP until a signal; the same content is judged once.

    Bearer tokens come from KERNELWRIGHT_SERVICE_TOKEN, several separated by commas; without one it listens
    on the loopback only. Limits given with --limit are the most a client may ask for. /docs describes the
    interface, /healthz and /metrics are for machines.
    """
    given = options.policy(
        device=None,
        shapes=None,
        dtype=None,
        math=None,
        baselines=baselines,
        sandbox=sandbox,
        sanitize=sanitize,
        time=None,
        limit=limit,
    )
    _need_extra()
    from kernelwright.agent.cli.judging.service_setup import Wishes, go

    tokens = read_tokens(os.environ.get(TOKEN_VARIABLE, ""))
    is_open = not is_loopback(host)
    if is_open and not tokens and not insecure_no_token:
        raise Usage(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE}, listen on 127.0.0.1, "
            "or pass --insecure-no-token"
        )
    if is_open and not tokens:
        say(f"warning: no token; whoever reaches {host} may run code in this machine's sandbox")
    go(
        Wishes(
            config=options.evaluation_config(given),
            problems=problems or ["all"],
            host=host,
            port=port,
            state=state,
            devices=device or [],
            workers=workers,
            retain_s=parse_seconds(retain) if retain else None,
            drain_s=parse_seconds(drain),
            tokens=tokens,
            is_open=is_open,
            allows_sources=allow_problem_sources,
            places=queue,
            body_bytes=max_body_mib << 20,
            longest_wait_s=parse_seconds(max_wait),
            cache=cache,
        )
    )


def read_tokens(text: str) -> tuple[str, ...]:
    """Tokens separated by commas or blanks.

    Raises:
        Usage: one is short enough to be guessed.
    """
    tokens = tuple(text.replace(",", " ").split())
    if any(len(token) < SHORTEST_TOKEN for token in tokens):
        raise Usage(
            f"a token in {TOKEN_VARIABLE} has fewer than {SHORTEST_TOKEN} characters; "
            "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return tokens


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _need_extra() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise Usage("the service needs more packages: pip install 'kernelwright[service]'")
