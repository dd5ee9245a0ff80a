"""`kernelwright serve`: evaluation over HTTP, for trainers and other machines."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kernelwright.agent.cli.evaluation.policy import SHORTEST_TOKEN
from kernelwright.agent.cli.terminal import completion, options
from kernelwright.agent.cli.terminal.failures import say
from kernelwright.agent.cli.terminal.option_values import parse_seconds
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.setup.service_setup import ReadyService

TOKEN_VARIABLE: Final = "KERNELWRIGHT_SERVICE_TOKEN"
_SERVICE, _CLIENTS = "Service", "Limits of clients"
_DURATION: Final = "60s|10m|30d"


@options.with_settings(
    "evaluation.baselines", "evaluation.sandbox", "evaluation.sanitize", "evaluation.limits"
)
def serve(
    given: options.Given,
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROBLEM...",
            help="Files, folders, ids or levels clients may name. Default: all installed ones.",
            autocompletion=completion.problems,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=_SERVICE)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.", rich_help_panel=_SERVICE)
    ] = 8080,
    state: Annotated[
        Path,
        typer.Option(
            envvar="KERNELWRIGHT_SERVICE_STATE",
            metavar="FOLDER",
            help="Folder of what was accepted and evaluated; a restart goes on with it.",
            rich_help_panel=_SERVICE,
        ),
    ] = Path("service"),
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="cpu or cuda:N; may be repeated. Default: every GPU, else cpu.", rich_help_panel=_SERVICE
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Evaluations at once on each device. Default: as many as keep it busy.",
            rich_help_panel=_SERVICE,
        ),
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar=_DURATION,
            help="Forget evaluations this long after their end. Default: never.",
            rich_help_panel=_SERVICE,
        ),
    ] = None,
    drain: Annotated[
        str,
        typer.Option(
            metavar=_DURATION,
            help="Time for running evaluations to end after a signal.",
            rich_help_panel=_SERVICE,
        ),
    ] = "60s",
    insecure_no_token: Annotated[
        bool,
        typer.Option(
            "--insecure-no-token",
            metavar="",
            help="Listen beyond the loopback without a token: whoever reaches it may run code here.",
            rich_help_panel=_SERVICE,
        ),
    ] = False,
    allow_problem_sources: Annotated[
        bool,
        typer.Option(
            "--allow-problem-sources",
            metavar="",
            help="Let clients send problems of their own.",
            rich_help_panel=_CLIENTS,
        ),
    ] = False,
    queue: Annotated[
        int, typer.Option(min=1, max=100_000, help="Evaluations that may wait.", rich_help_panel=_CLIENTS)
    ] = 1000,
    max_body_mib: Annotated[
        int, typer.Option(min=1, max=16, help="Largest request.", rich_help_panel=_CLIENTS)
    ] = 4,
    max_wait: Annotated[
        str,
        typer.Option(
            metavar=_DURATION,
            help="Longest time a client may wait in one request.",
            rich_help_panel=_CLIENTS,
        ),
    ] = "60s",
    cache: options.Cache = None,
) -> None:
    """Evaluate candidates over HTTP until a signal; the same content is evaluated once.

    Bearer tokens come from KERNELWRIGHT_SERVICE_TOKEN, several separated by commas; without one it listens
    on the loopback only. Limits given with --limit are the most a client may ask for. /docs describes the
    interface, /healthz and /metrics are for machines.
    """
    _need_extra()
    from kernelwright.agent.setup.service_setup import ServiceSettings, serve_until_signal

    tokens = read_tokens(os.environ.get(TOKEN_VARIABLE, ""))
    is_open = not is_loopback(host)
    if is_open and not tokens and not insecure_no_token:
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE}, listen on 127.0.0.1, "
            "or pass --insecure-no-token"
        )
    if is_open and not tokens:
        say(f"warning: no token; whoever reaches {host} may run code in this machine's sandbox")
    settings = ServiceSettings(
        config=given.evaluation(),
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
    serve_until_signal(settings, _announce)


def _announce(ready: ReadyService) -> None:
    import logging
    import sys

    name = f"[{ready.host}]" if ":" in ready.host else ready.host
    places = [f"{device} x{count}" for device, count in Counter(ready.devices).items()]
    waiting = f", {ready.queued} evaluations wait" if ready.queued else ""
    print(f"judging {ready.problems} problems on {', '.join(places)}{waiting}; Ctrl-C drains")
    print(f"http://{name}:{ready.port}   # interface: http://{name}:{ready.port}/docs", flush=True)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def read_tokens(text: str) -> tuple[str, ...]:
    """Tokens separated by commas or blanks.

    Raises:
        UsageError: one is short enough to be guessed.
    """
    tokens = tuple(text.replace(",", " ").split())
    if any(len(token) < SHORTEST_TOKEN for token in tokens):
        raise UsageError(
            f"a token in {TOKEN_VARIABLE} has fewer than {SHORTEST_TOKEN} characters; "
            "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return tokens


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _need_extra() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise UsageError("the service needs more packages: pip install 'kernelwright[service]'")
