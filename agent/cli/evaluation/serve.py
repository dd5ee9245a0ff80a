"""`kernelwright serve`: evaluation over HTTP, for trainers and other machines."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

from kernelwright.agent.cli.evaluation.policy import SHORTEST_TOKEN
from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.failures import say
from kernelwright.agent.cli.terminal.option_values import parse_seconds
from kernelwright.agent.cli.terminal.options import SettingOption, option
from kernelwright.agent.providers.endpoint import is_loopback_host
from kernelwright.agent.setup.usage_error import UsageError, validated

if TYPE_CHECKING:
    from kernelwright.agent.service.service_setup import ServiceSettings

TOKEN_VARIABLE: Final = "KERNELWRIGHT_SERVICE_TOKEN"
_SERVICE, _CLIENTS = "Service", "Limits of clients"
_DURATION: Final = "60s|10m|30d"

OPTIONS: Final = MappingProxyType(
    {
        "service.host": SettingOption("--host", _SERVICE),
        "service.port": SettingOption("--port", _SERVICE),
        "service.devices": SettingOption("--device", _SERVICE, tuple),
        "service.workers": SettingOption("--workers", _SERVICE),
        "service.retain_s": SettingOption("--retain", _SERVICE, parse_seconds, _DURATION),
        "service.drain_s": SettingOption("--drain", _SERVICE, parse_seconds, _DURATION),
        "service.needs_no_token": SettingOption("--insecure-no-token", _SERVICE),
        "service.allows_sources": SettingOption("--allow-problem-sources", _CLIENTS),
        "service.places": SettingOption("--queue", _CLIENTS),
        "service.body_mib": SettingOption("--max-body-mib", _CLIENTS),
        "service.longest_wait_s": SettingOption("--max-wait", _CLIENTS, parse_seconds, _DURATION),
    }
)
"""Settings of a service that have an option."""

State = Annotated[
    Path,
    option(
        "Folder of what was accepted and evaluated; a restart goes on with it.",
        panel=_SERVICE,
        metavar="FOLDER",
        envvar="KERNELWRIGHT_SERVICE_STATE",
    ),
]


@options.with_settings(
    *("evaluation.baselines", "evaluation.sandbox", "evaluation.sanitize", "evaluation.limits"),
    *options.CLUSTERS,
    *OPTIONS,
    table={**options.SETTINGS, **OPTIONS},
)
def serve(
    given: options.Given,
    problems: options.Problems = None,
    state: State = Path("service"),
    cache: options.Cache = None,
) -> None:
    """Evaluate candidates over HTTP until a signal; the same content is evaluated once.

    Bearer tokens come from KERNELWRIGHT_SERVICE_TOKEN, several separated by commas; without one it listens
    on the loopback only. Limits given with --limit are the most a client may ask for. /docs describes the
    interface, /healthz and /metrics are for machines.
    """
    _need_extra()
    from kernelwright.agent.service.service_setup import ServiceSettings, serve_until_signal

    own = given.values.pop("service", {})
    run = given.run_settings()
    values = {
        "config": run.evaluation,
        "cluster": run if run.engine == "ray" else None,
        "problems": tuple(problems or ["all"]),
        "state": state,
        "tokens": read_tokens(os.environ.get(TOKEN_VARIABLE, "")),
        "cache": cache,
    }
    settings = validated(ServiceSettings, values | own, prefix="service", names=given.flags)
    _check_reach(settings)
    serve_until_signal(settings, _announce)


def _check_reach(settings: ServiceSettings) -> None:
    host = settings.host
    if is_loopback_host(host) or settings.tokens:
        return
    if not settings.needs_no_token:
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN_VARIABLE}, listen on 127.0.0.1, "
            "or pass --insecure-no-token"
        )
    say(f"warning: no token; whoever reaches {host} may run code in this machine's sandbox")


def _announce(served: str, host: str, port: int) -> None:
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    print(f"evaluating {served}; Ctrl-C drains")
    print(f"{place}   # interface: {place}/docs", flush=True)
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
