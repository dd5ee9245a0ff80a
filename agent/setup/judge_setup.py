"""Chooses where candidates are evaluated: on this machine, by judges elsewhere, or on a cluster."""

from __future__ import annotations

import logging
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kernelwright.agent.evaluation.evaluation_site import EvaluationSite, RemoteEvaluationSite
from kernelwright.agent.evaluation.local_site import LocalSite
from kernelwright.agent.evaluation.remote_site import RemoteSite
from kernelwright.agent.providers.endpoint import is_loopback
from kernelwright.agent.setup.credentials import address_in
from kernelwright.agent.setup.policy import TOKEN_FILE_BYTES
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.setup.usage_error import UsageError
from kernelwright.evaluator import Concurrency, EvaluationConfig, EvaluatorError, evaluations_at_once

if TYPE_CHECKING:
    from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSite

JUDGE_VARIABLE: Final = "KERNELWRIGHT_JUDGE"
TOKEN_VARIABLE: Final = "KERNELWRIGHT_JUDGE_TOKEN"
TOKEN_FILE_VARIABLE: Final = "KERNELWRIGHT_JUDGE_TOKEN_FILE"

_LOG: Final = logging.getLogger(__name__)


def judges_of(settings: RunSettings) -> tuple[str, ...]:
    """The addresses of judges elsewhere, or none; raises UsageError if the environment's hold a secret."""
    if settings.judges:
        return settings.judges
    named = (text.strip() for text in os.environ.get(JUDGE_VARIABLE, "").split(","))
    return tuple(dict.fromkeys(address_in(JUDGE_VARIABLE, url) for url in named if url))


def local_site(cache: Path | None, device: str, backends: Iterable[str], at_once: int | None) -> LocalSite:
    """This machine; `at_once` evaluations, or enough to keep its devices busy."""
    if at_once:
        return LocalSite(cache, Concurrency(at_once, "as asked"))
    try:
        return LocalSite(cache, evaluations_at_once(device, backends))
    except EvaluatorError as error:
        # Each evaluation tells of a missing device.
        return LocalSite(cache, Concurrency(1, str(error)))


def is_elsewhere(settings: RunSettings) -> bool:
    """Return whether other machines evaluate; raises what `judges_of` raises."""
    return settings.engine == "ray" or bool(judges_of(settings))


def remote_site(
    settings: RunSettings, config: EvaluationConfig, backends: Iterable[str], *, cache: Path | None = None
) -> RemoteEvaluationSite | None:
    """The judges elsewhere or the cluster; None where this machine evaluates. Enter it to meet them.

    `cache` is the folder of builds and baselines on the nodes of a cluster, as `--cache` gives it. Raises
    UsageError or ConfigError for an address, a token file or a setting that cannot be.
    """
    judges = judges_of(settings)
    if settings.engine == "ray":
        if judges:
            raise UsageError("--engine ray and --judge name two places to evaluate; leave one out")
        return _cluster_site(settings, config, backends, cache)
    if any((settings.address, settings.cluster_judges, settings.cluster_builders, settings.insecure_cluster)):
        raise UsageError(
            "--address, --cluster-judges, --cluster-builders and --insecure-cluster are of a cluster: "
            "add --engine ray"
        )
    if not judges:
        if settings.judge_device:
            raise UsageError("--judge-device names a device of judges; --judge URL names the judges")
        return None
    return RemoteSite(tokens_of(judges), config, backends, device=settings.judge_device)


def open_site(
    settings: RunSettings,
    config: EvaluationConfig,
    backends: Iterable[str],
    *,
    cache: Path | None,
    at_once: int | None = None,
) -> EvaluationSite:
    """The judges elsewhere, if any are named, else this machine. Raises what `remote_site` raises."""
    elsewhere = remote_site(settings, config, backends, cache=cache)
    return elsewhere or local_site(cache, config.device, backends, at_once)


def cluster_of(settings: RunSettings, config: EvaluationConfig, devices: Sequence[str]) -> ClusterSite:
    """The cluster for a service, with judges for these kinds of device, else for those that it has.

    Raises UsageError for several kinds or a device by number, ConfigError or MachineError for the cluster.
    """
    kinds = set(devices) or _cluster_site(settings, config, (), None).kinds()
    if not kinds <= {"cpu", "cuda"}:
        raise UsageError(f"--engine ray serves --device cpu or cuda, not {', '.join(devices)}")
    kind = "cuda" if "cuda" in kinds else "cpu"
    return _cluster_site(settings, config.model_copy(update={"device": kind}), (), None)


def _cluster_site(
    settings: RunSettings, config: EvaluationConfig, backends: Iterable[str], cache: Path | None
) -> ClusterSite:
    # Nothing of a cluster is imported on the way to this machine's own evaluator.
    from kernelwright.agent.evaluation.cluster.cluster_site import ClusterSettings, ClusterSite
    from kernelwright.agent.evaluation.cluster.ray_connection import RayConnection

    connection = RayConnection(settings.address, allows_open=settings.insecure_cluster)
    wanted = ClusterSettings(settings.cluster_judges, settings.cluster_builders, settings.judge_device, cache)
    return ClusterSite(connection, wanted, config, backends)


def tokens_of(judges: Sequence[str]) -> dict[str, str | None]:
    """The token of each judge: that of its line in the token file, else that of the environment.

    Raises UsageError if the file cannot be read, or others can read it.
    """
    common = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    path = os.environ.get(TOKEN_FILE_VARIABLE, "").strip()
    named = _read_tokens(Path(path)) if path else {}
    found = {url.rstrip("/"): named.get(url.rstrip("/"), common) for url in judges}
    for url, token in found.items():
        if token and urlsplit(url).scheme == "http" and not is_loopback(url):
            _LOG.warning(
                "warning: the token for %s travels without TLS; use https where the net is not yours", url
            )
    return found


def _read_tokens(path: Path) -> Mapping[str, str]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {TOKEN_FILE_VARIABLE} {path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        raise UsageError(f"{TOKEN_FILE_VARIABLE} {path} can be read by others; chmod 600 it")
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        table = {"": None}
    if len(data) > TOKEN_FILE_BYTES or not all(isinstance(token, str) for token in table.values()):
        # Without the text, which holds tokens.
        raise UsageError(f'{TOKEN_FILE_VARIABLE} {path}: each line is "URL" = "TOKEN", as in TOML')
    return {url.rstrip("/"): token for url, token in table.items()}
