"""Evaluates on services elsewhere. Imports no torch, and needs none."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.policy import AHEAD, MOST_AT_ONCE, MOST_MOVES
from kernelwright.agent.evaluation.remote_evaluation import (
    RemoteEvaluation,
    ServiceClosing,
    ServiceLost,
    is_known,
    refuse_operators_choices,
    refuse_stopped,
)
from kernelwright.agent.evaluation.remote_service import RemoteService
from kernelwright.agent.evaluation.service_pool import Patience, PoolCallbacks, ServicePool
from kernelwright.evaluator import (
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    find_backend,
)


class RemoteSite:
    """One or several services; see `EvaluationSite`. Usable from any thread."""

    builds_plainly = None
    """A service rebuilds nothing with torch's own headers."""

    def __init__(
        self,
        tokens: Mapping[str, str | None],
        config: EvaluationConfig,
        backends: Iterable[str] = (),
        *,
        device: str | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """`tokens` by the address of each service; `device` names the one that is meant.

        Without backends, those of any device there is may be asked for.

        Raises:
            ConfigError: not an address, or settings that are the operator's.
        """
        refuse_operators_choices(config)
        named = device or (config.device.partition(":")[0] if config.device != "auto" else None)
        self._is_named = named is not None
        self._kinds = {find_backend(name).device for name in backends}
        self._pool = ServicePool(
            [RemoteService(url, token, named) for url, token in tokens.items()], patience
        )
        self._guard = threading.Lock()
        self._hardware: dict[str, str] = {}
        """By kind of device, its name in the results so far."""

    def __enter__(self) -> Self:
        """Meet the services.

        Raises:
            ConfigError: they refuse, or cannot be compared.
            MachineError: none answers.
        """
        self._pool.__enter__()
        try:
            self._pool.meet(self._kinds, named=self._is_named)
        except BaseException:
            self._pool.__exit__()
            raise
        self._kinds = self._kinds or set(self._pool.terms)
        return self

    def __exit__(self, *exception: object) -> None:
        """Withdraw what is under way."""
        self._pool.__exit__(*exception)

    @property
    def at_once(self) -> int:
        """Evaluations under way that keep the services busy."""
        return max(1, min(MOST_AT_ONCE, AHEAD * self._pool.at_once(self._kinds)))

    @property
    def capacity(self) -> str:
        """The evaluations at once of all services."""
        return f"{self._pool.at_once(self._kinds)} at once by judges elsewhere, as they say"

    @property
    def devices(self) -> dict[str, str]:
        """The name of the services' device of each kind, `cpu` or `cuda`."""
        return self._pool.device_names()

    def kinds(self) -> set[str]:
        """The kinds of the services' devices; meets them, and leaves them again."""
        with self:
            return set(self.devices)

    @property
    def torch(self) -> str:
        """The services' version of torch."""
        return self._pool.torch()

    @property
    def machine(self) -> str:
        """The terms of the services."""
        return "; ".join(self._pool.terms[kind] for kind in sorted(self._pool.terms))

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        """Evaluate one candidate; raises what `EvaluationSite.evaluate` does."""
        trail = _Trail()
        try:
            while (found := self._at_one(request, hooks, trail)) is None:
                pass
        finally:
            self._pool.owe(trail.left)
        return found

    def _at_one(self, request: EvaluationRequest, hooks: EvaluationHooks, trail: _Trail) -> Evaluation | None:
        """The result of one service; None if that was lost or is ending."""
        kind = find_backend(request.candidate.backend).device

        def waits() -> None:
            refuse_stopped(hooks, self._pool.closing)
            hooks.on_queue(None)

        ask = PoolCallbacks(lambda service: is_known(service, request), waits)
        with self._pool.service(kind, request.problem.sha, trail.left, ask) as service:
            trail.enter(service.url)
            try:
                found = RemoteEvaluation(service, request, hooks, self._pool).result()
            except ServiceClosing as error:
                self._pool.lose(service, str(error))
                return None
            except ServiceLost as error:
                self._pool.lose(service, str(error))
                trail.lose(service.url, error.evaluation)
                return None
        self._refuse_other_hardware(kind, service.url, found)
        return found

    def _refuse_other_hardware(self, kind: str, url: str, found: Evaluation) -> None:
        if found.environment is None:
            return
        name = found.environment.device_name
        with self._guard:
            known = self._hardware.setdefault(kind, name)
        if name != known:
            raise EvaluatorError(f"{url} evaluated on {name}, others on {known}: not comparable, not scored")


@dataclass(slots=True)
class _Trail:
    """The way of one evaluation through services that are lost."""

    left: dict[str, str] = field(default_factory=dict)
    """Services that were lost, each with the id of what it may still evaluate."""
    moves: list[str] = field(default_factory=list)
    """Services that it moved away from."""
    _last: str = ""
    """The service that was lost just now."""

    def enter(self, url: str) -> None:
        """Begin at a service.

        Raises:
            MachineError: it has moved too often.
        """
        if self._last not in ("", url):
            self.moves.append(self._last)
        if len(self.moves) > MOST_MOVES:
            raise MachineError(
                f"not evaluated: {', '.join(self.moves)} were lost one after the other during it"
            )
        self.left.pop(url, None)
        self._last = ""

    def lose(self, url: str, evaluation: str) -> None:
        """Note that a service was lost."""
        self.left[url] = evaluation
        self._last = url
