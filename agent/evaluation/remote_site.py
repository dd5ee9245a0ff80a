"""Evaluates on services elsewhere: which of them gets an evaluation, and which answer now. Imports no torch.

A problem goes to the same service while that has room, since an open problem is reused there (rendezvous
hashing, so that a lost service moves its own problems alone). A thread looks after those that do not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final, Self

from kernelwright.agent.evaluation.evaluation_site import EvaluationHooks, EvaluationRequest
from kernelwright.agent.evaluation.handshake import refuse_mixed, terms_of
from kernelwright.agent.evaluation.policy import AHEAD, GOODBYE_S, MOST_AT_ONCE, MOST_MOVES, Patience
from kernelwright.agent.evaluation.remote_evaluation import (
    RemoteEvaluation,
    ServiceClosing,
    ServiceLost,
    is_known,
    refuse_operators_choices,
    refuse_stopped,
)
from kernelwright.agent.evaluation.remote_service import RemoteService
from kernelwright.evaluator import (
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    find_backend,
    sha256_text,
)

_LOG: Final = logging.getLogger(__name__)


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

        Without backends, those of any device there is may be asked for. Raises ConfigError for what is no
        address, or settings that are the operator's.
        """
        refuse_operators_choices(config)
        named = device or (config.device.partition(":")[0] if config.device != "auto" else None)
        self._is_named = named is not None
        self._kinds = {find_backend(name).device for name in backends}
        self._patience = patience
        self._services = [RemoteService(url, token, named) for url, token in tokens.items()]
        self._terms: dict[str, str] = {}
        """By kind of device, what every service that has it must be like."""
        self._hardware: dict[str, str] = {}
        """By kind of device, its name in the results so far."""
        self._guard = threading.Lock()
        self._open = ExitStack()
        self._watch = threading.Thread(target=self._look_after, name="judges", daemon=True)
        self._closing = threading.Event()
        """Set once the site is left: nothing more is evaluated."""

    def __enter__(self) -> Self:
        """Meet the services; raises ConfigError if they refuse or differ, MachineError if none answers."""
        for service in self._services:
            self._open.enter_context(service.client)
        try:
            self._meet()
        except BaseException:
            self.__exit__()
            raise
        self._kinds = self._kinds or set(self._terms)
        return self

    def __exit__(self, *exception: object) -> None:
        """Withdraw what is under way."""
        self._closing.set()
        until = time.monotonic() + GOODBYE_S
        for service in self._services:
            if not service.trouble:
                service.withdraw_all(until)
        # Their callers hear that they are cancelled, and use the connections no more.
        while any(service.under_way for service in self._services) and time.monotonic() < until:
            time.sleep(0.01)
        if self._watch.is_alive():
            self._watch.join(GOODBYE_S)
        self._open.close()

    @property
    def at_once(self) -> int:
        return max(1, min(MOST_AT_ONCE, AHEAD * self._places))

    @property
    def capacity(self) -> str:
        return f"{self._places} at once by judges elsewhere, as they say"

    @property
    def _places(self) -> int:
        return sum(
            one.devices[kind].at_once for one in self._services for kind in self._kinds & one.devices.keys()
        )

    @property
    def devices(self) -> dict[str, str]:
        services = reversed(self._services)
        return {kind: device.name for one in services for kind, device in one.devices.items()}

    def kinds(self) -> set[str]:
        """Meet the services, and leave them again."""
        with self:
            return set(self.devices)

    @property
    def torch(self) -> str:
        return next((one.facts.torch for one in self._services if one.facts), "")

    @property
    def machine(self) -> str:
        return "; ".join(self._terms[kind] for kind in sorted(self._terms))

    def evaluate(self, request: EvaluationRequest, hooks: EvaluationHooks) -> Evaluation:
        kind = find_backend(request.candidate.backend).device
        unanswered: dict[str, str] = {}
        """Services that were lost, each with the id of what it may still evaluate."""
        left: list[str] = []
        """Services that it moved away from."""
        lost = ""
        try:
            while True:
                with self._service(kind, request, hooks, avoid=unanswered) as service:
                    if lost not in ("", service.url):
                        left.append(lost)
                    if len(left) > MOST_MOVES:
                        raise MachineError(
                            f"not evaluated: {', '.join(left)} were lost one after the other during it"
                        )
                    unanswered.pop(service.url, None)
                    lost = ""
                    try:
                        lost_s = self._patience.lost_s
                        found = RemoteEvaluation(service, request, hooks, self._closing, lost_s).result()
                    except ServiceClosing as error:
                        self._lose(service, str(error))
                    except ServiceLost as error:
                        self._lose(service, str(error))
                        unanswered[service.url] = error.evaluation
                        lost = service.url
                    else:
                        self._refuse_other_hardware(kind, service.url, found)
                        return found
        finally:
            for one in self._services:
                if evaluation := unanswered.get(one.url):
                    one.owe(evaluation)

    def _refuse_other_hardware(self, kind: str, url: str, found: Evaluation) -> None:
        if found.environment is None:
            return
        name = found.environment.device_name
        with self._guard:
            known = self._hardware.setdefault(kind, name)
        if name != known:
            raise EvaluatorError(f"{url} evaluated on {name}, others on {known}: not comparable, not scored")

    def _meet(self) -> None:
        """Ask all services for their facts, and refuse those that do not belong together.

        A service that does not answer may come later, as long as one answers. Where the caller has named the
        device that is meant, services without it are left out.
        """
        with ThreadPoolExecutor(max_workers=16) as threads:
            list(threads.map(lambda service: service.meet({}), self._services))
        met = {service.url: service.facts for service in self._services if service.facts is not None}
        if not met:
            raise MachineError(self._nobody())
        kinds = self._kinds or {kind for one in self._services for kind in one.devices}
        for service in [one for one in self._services if one.url in met]:
            if not kinds & service.devices.keys():
                has = ", ".join(device.name for device in met[service.url].devices)
                why = f"{service.url} has no {' or '.join(sorted(kinds))} device that is meant (it has {has})"
                if not self._is_named:
                    raise ConfigError(f"{why}; leave it out, or name a device with --judge-device")
                _LOG.warning("left out: %s", why)
                self._services.remove(service)
        for kind in sorted(kinds):
            found = {
                one.url: terms_of(met[one.url], one.devices[kind])
                for one in self._services
                if one.url in met and kind in one.devices
            }
            if not found:
                raise ConfigError(f"no judge has the {kind} device that is meant: {', '.join(met)}")
            refuse_mixed(found)
            self._terms[kind] = next(iter(found.values()))
        for service in self._services:
            if service.trouble:
                _LOG.warning("%s; the others evaluate meanwhile", service.trouble)
        self._watch.start()

    @contextmanager
    def _service(
        self, kind: str, request: EvaluationRequest, hooks: EvaluationHooks, *, avoid: Collection[str]
    ) -> Iterator[RemoteService]:
        """A service for one evaluation, one of `avoid` only if no other answers.

        It goes to a service that knows it already, from this process or an earlier one. Raises MachineError
        if none answers for too long.
        """
        until = time.monotonic() + self._patience.nobody_s
        while not (up := [one for one in self._services if not one.trouble and kind in one.devices]):
            if time.monotonic() > until:
                raise MachineError(self._nobody())
            refuse_stopped(hooks, self._closing)
            hooks.on_queue(None)
            self._closing.wait(0.1)
        up = [one for one in up if one.url not in avoid] or up
        ranked = sorted(up, key=lambda one: sha256_text(f"{one.url}\0{request.problem.sha}"))
        known = next((one for one in ranked if len(ranked) > 1 and is_known(one, request)), None)
        with self._guard:
            free = (one for one in ranked if one.under_way < one.devices[kind].at_once)
            service = known or next(free, None)
            service = service or min(ranked, key=lambda one: one.under_way / one.devices[kind].at_once)
            service.under_way += 1
        try:
            yield service
        finally:
            with self._guard:
                service.under_way -= 1

    def _lose(self, service: RemoteService, why: str) -> None:
        """Do not use a service for a while."""
        with self._guard:
            is_news = not service.trouble
            service.trouble = why
        if is_news:
            _LOG.warning("%s; what it has not answered goes to others, or waits", why)

    def _look_after(self) -> None:
        """Meet services that do not answer, until they do."""
        while not self._closing.wait(self._patience.recheck_s):
            for service in [one for one in self._services if one.trouble]:
                before = service.trouble
                try:
                    service.meet(self._terms)
                except ConfigError as error:
                    # It came back as another one; whoever put it there may put the right one back.
                    service.trouble = str(error)
                    if service.trouble != before:
                        _LOG.warning("not used: %s", error)
                if not service.trouble:
                    _LOG.info("%s answers again", service.url)

    def _nobody(self) -> str:
        why = "; ".join(one.trouble or f"{one.url} answers" for one in self._services)
        return f"no judge answers ({why}); start one of them, or name another with --judge"
