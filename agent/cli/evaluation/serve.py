"""`kernelwright serve`: evaluation over HTTP, for trainers and other machines."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from kernelwright.agent.cli.evaluation.policy import SHORTEST_TOKEN
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import say
from kernelwright.agent.cli.terminal.option_values import parse_seconds
from kernelwright.agent.cli.terminal.options import flag, option
from kernelwright.agent.providers.endpoint import is_loopback_host
from kernelwright.agent.setup.usage_error import UsageError

if TYPE_CHECKING:
    from kernelwright.agent.service.service_setup import ReadyService

TOKEN_VARIABLE: Final = "KERNELWRIGHT_SERVICE_TOKEN"
_SERVICE, _CLIENTS = "Service", "Limits of clients"
_DURATION: Final = "60s|10m|30d"


Host = Annotated[str, option("Address to listen on.", panel=_SERVICE)]
Port = Annotated[int, option("Port; 0 takes a free one.", panel=_SERVICE, min=0, max=65535)]
State = Annotated[
    Path,
    option(
        "Folder of what was accepted and evaluated; a restart goes on with it.",
        panel=_SERVICE,
        metavar="FOLDER",
        envvar="KERNELWRIGHT_SERVICE_STATE",
    ),
]
Device = Annotated[
    list[str] | None, option("cpu or cuda:N; may be repeated. Default: every GPU, else cpu.", panel=_SERVICE)
]
Workers = Annotated[
    int | None,
    option("Evaluations at once on each device. Default: enough for it.", panel=_SERVICE, min=1, max=64),
]
Retain = Annotated[
    str | None,
    option(
        "Forget evaluations this long after their end. Default: never.", panel=_SERVICE, metavar=_DURATION
    ),
]
Drain = Annotated[
    str, option("Time for running evaluations to end after a signal.", panel=_SERVICE, metavar=_DURATION)
]
NoToken = Annotated[
    bool,
    flag(
        "Listen beyond the loopback without a token: whoever reaches it may run code here.",
        "--insecure-no-token",
        panel=_SERVICE,
    ),
]
ProblemSources = Annotated[
    bool, flag("Let clients send own problems.", "--allow-problem-sources", panel=_CLIENTS)
]
Queue = Annotated[int, option("Evaluations that may wait.", panel=_CLIENTS, min=1, max=100_000)]
Body = Annotated[int, option("Largest request.", panel=_CLIENTS, min=1, max=16)]
Wait = Annotated[
    str, option("Longest time a client may wait in one request.", panel=_CLIENTS, metavar=_DURATION)
]


@options.with_settings(
    *("evaluation.baselines", "evaluation.sandbox", "evaluation.sanitize", "evaluation.limits"),
    *options.CLUSTERS,
)
def serve(
    given: options.Given,
    problems: options.Problems = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    state: State = Path("service"),
    device: Device = None,
    workers: Workers = None,
    retain: Retain = None,
    drain: Drain = "60s",
    insecure_no_token: NoToken = False,
    allow_problem_sources: ProblemSources = False,
    queue: Queue = 1000,
    max_body_mib: Body = 4,
    max_wait: Wait = "60s",
    cache: options.Cache = None,
) -> None:
    """Evaluate candidates over HTTP until a signal; the same content is evaluated once.

    Bearer tokens come from KERNELWRIGHT_SERVICE_TOKEN, several separated by commas; without one it listens
    on the loopback only. Limits given with --limit are the most a client may ask for. /docs describes the
    interface, /healthz and /metrics are for machines.
    """
    _need_extra()
    from kernelwright.agent.service.service_setup import ServiceSettings, serve_until_signal

    tokens = read_tokens(os.environ.get(TOKEN_VARIABLE, ""))
    is_open = _check_reach(host, tokens, insecure_no_token)
    run = given.run_settings()
    settings = ServiceSettings(
        config=run.evaluation,
        cluster=run if run.engine == "ray" else None,
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


def _check_reach(host: str, tokens: tuple[str, ...], insecure: bool) -> bool:
    if is_loopback_host(host):
        return False
    if not tokens and not insecure:
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE}, listen on 127.0.0.1, "
            "or pass --insecure-no-token"
        )
    if not tokens:
        say(f"warning: no token; whoever reaches {host} may run code in this machine's sandbox")
    return True


def _announce(ready: ReadyService) -> None:
    name = f"[{ready.host}]" if ":" in ready.host else ready.host
    places = [f"{device} x{count}" for device, count in Counter(ready.devices).items()]
    waiting = f", {ready.queued} evaluations wait" if ready.queued else ""
    print(f"evaluating {ready.problems} problems on {', '.join(places)}{waiting}; Ctrl-C drains")
    print(f"http://{name}:{ready.port}   # interface: http://{name}:{ready.port}/docs", flush=True)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def read_tokens(text: str) -> tuple[str, ...]:
    """Tokens separated by commas or blanks; raises UsageError if one is short enough to be guessed."""
    tokens = tuple(text.replace(",", " ").split())
    if any(len(token) < SHORTEST_TOKEN for token in tokens):
        raise UsageError(
            f"a token in {TOKEN_VARIABLE} has fewer than {SHORTEST_TOKEN} characters; "
            "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return tokens


def _need_extra() -> None:
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise UsageError("the service needs more packages: pip install 'kernelwright[service]'")
