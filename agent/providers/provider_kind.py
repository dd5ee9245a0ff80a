"""The seam of a provider: a frozen record of settings that opens clients.

Subclass `ProviderKind`, give it a `name`, register it, and `kernelwright run --provider NAME` takes it:

    [project.entry-points."kernelwright.providers"]
    theirs = "their_package:Theirs"

Its fields are settings: one that is named like a setting of the run gets that value (`stream`, `recordings`),
every other one is set by `--set provider_options.FIELD=VALUE`. The first line of its docstring describes it.
Around its clients the run puts fallbacks, the completion cache and recordings; budgets, retries of a whole
assignment and the log are the runner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kernelwright.agent.providers.endpoint import Endpoint, RetryPolicy
from kernelwright.agent.providers.prices import PriceTable
from kernelwright.agent.providers.rate_limits import RateLimits, Retrying
from kernelwright.agent.records.messages import CompletionRequest, Provider
from kernelwright.evaluator import ConfigError, Record, load_plugin

if TYPE_CHECKING:
    from kernelwright.agent.providers.batch_api.batch_jobs import BatchJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTerms:
    """The run's limits and prices, which a client must keep to."""

    limits: RateLimits = field(default_factory=RateLimits)
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    prices: PriceTable = field(default_factory=PriceTable)
    """Finds the price of a model by its name; a completion's `cost_usd` is None where it knows none."""
    on_retry: Callable[[Retrying], None] | None = None
    """Called before each wait for another try."""


class ProviderKind(Record):
    """Opens clients of one kind of model endpoint."""

    name: str
    """Its name in records and on the command line."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the key, first choice first. With any named here, a run needs a key
    or a base URL to begin; none: it needs neither."""
    url_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the base URL."""
    default_url: ClassVar[str] = ""
    """Base URL where neither settings nor environment name one."""
    default_models: ClassVar[tuple[str, ...]] = ()
    """Models to ask where the run names none."""
    is_live: ClassVar[bool] = True
    """False where replies cost nothing: they need no price under a bound in dollars and are not cached."""
    origin: ClassVar[str] = ""
    """Recorded as the origin of replies that no model gave just now."""
    bulk: ClassVar[str] = ""
    """Name of the provider that sends the same requests in bulk; its `open_jobs` is called."""

    @contextmanager
    def serve(self, endpoint: Endpoint, tell: Callable[[str], None]) -> Iterator[Endpoint]:
        """Prepare what clients need, before the run begins; yields the endpoint they are to use.

        Raises:
            ConfigError: the settings cannot work.
        """
        yield endpoint

    def open(self, endpoint: Endpoint, terms: ClientTerms) -> Provider:
        """A client of an endpoint, which holds address and key; the run closes it."""
        raise NotImplementedError

    def open_jobs(
        self, folder: Path, endpoint: Endpoint, prices: PriceTable, key: Callable[[CompletionRequest], str]
    ) -> BatchJobs:
        """Requests sent in bulk: saved in `folder`, told apart by `key`."""
        raise NotImplementedError


def find_provider(name: str) -> type[ProviderKind]:
    """The provider of a name; raises ConfigError where there is none, or something else."""
    found = load_plugin("providers", name)
    if isinstance(found, type) and issubclass(found, ProviderKind):
        return found
    raise ConfigError(f"provider {name!r} is registered as {found!r}, which is no subclass of ProviderKind")
