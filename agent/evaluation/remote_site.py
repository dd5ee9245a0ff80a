"""Evaluates on services elsewhere. Imports no torch, and needs none."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Self

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.policy import AHEAD, MOST_AT_ONCE, MOST_MOVES, Patience
from kernelwright.agent.evaluation.remote_evaluation import (
    RemoteEvaluation,
    ServiceClosing,
    ServiceLost,
    is_known,
    refuse_operators_choices,
    refuse_stopped,
)
from kernelwright.agent.evaluation.remote_service import RemoteService
from kernelwright.agent.evaluation.service_pool import ServicePool
from kernelwright.evaluator import Evaluation, EvaluationConfig, EvaluatorError, MachineError, find_backend


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
        """Meet the services; ConfigError: they refuse, or do not compare; MachineError: none answers."""
        with ExitStack() as stack:
            stack.enter_context(self._pool).meet(self._kinds, named=self._is_named)
            stack.pop_all()
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
        services = reversed(self._pool.services)
        return {kind: device.name for one in services for kind, device in one.devices.items()}

    def kinds(self) -> set[str]:
        """The kinds of the services' devices; meets them, and leaves them again."""
        with self:
            return set(self.devices)

    @property
    def torch(self) -> str:
        """The services' version of torch."""
        return next((one.facts.torch for one in self._pool.services if one.facts), "")

    @property
    def machine(self) -> str:
        """The terms of the services."""
        return "; ".join(self._pool.terms[kind] for kind in sorted(self._pool.terms))

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        """Evaluate one candidate; raises what `EvaluationSite.evaluate` does."""
        kind = find_backend(request.candidate.backend).device
        unanswered: dict[str, str] = {}
        """Services that were lost, each with the id of what it may still evaluate."""
        left: list[str] = []
        """Services that it moved away from."""

        def knows(service: RemoteService) -> bool:
            return is_known(service, request)

        def waits() -> None:
            refuse_stopped(hooks, self._pool.closing)
            hooks.on_queue(None)

        lost = ""
        try:
            while True:
                with self._pool.service(
                    kind, request.problem.sha, unanswered, knows=knows, waits=waits
                ) as service:
                    if lost not in ("", service.url):
                        left.append(lost)
                    if len(left) > MOST_MOVES:
                        raise MachineError(
                            f"not evaluated: {', '.join(left)} were lost one after the other during it"
                        )
                    unanswered.pop(service.url, None)
                    lost = ""
                    try:
                        found = RemoteEvaluation(service, request, hooks, self._pool).result()
                    except ServiceClosing as error:
                        self._pool.lose(service, str(error))
                    except ServiceLost as error:
                        self._pool.lose(service, str(error))
                        unanswered[service.url] = error.evaluation
                        lost = service.url
                    else:
                        self._refuse_other_hardware(kind, service.url, found)
                        return found
        finally:
            self._pool.owe(unanswered)

    def _refuse_other_hardware(self, kind: str, url: str, found: Evaluation) -> None:
        if found.environment is None:
            return
        name = found.environment.device_name
        with self._guard:
            known = self._hardware.setdefault(kind, name)
        if name != known:
            raise EvaluatorError(f"{url} evaluated on {name}, others on {known}: not comparable, not scored")
