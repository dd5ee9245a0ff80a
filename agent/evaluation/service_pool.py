"""Several services: which of them gets an evaluation, and which of them answer now.

A problem goes to the same service while that has room, since an open problem is reused there (rendezvous
hashing, so that a lost service moves its own problems alone). A thread looks after those that do not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Self

from kernelwright.agent.evaluation.handshake import refuse_mixed, terms_of
from kernelwright.agent.evaluation.policy import GOODBYE_S, Patience
from kernelwright.agent.evaluation.remote_service import RemoteService
from kernelwright.evaluator import ConfigError, MachineError, sha256_text

_LOG = logging.getLogger(__name__)


class ServicePool:
    """The services that evaluate for this process. Usable from any thread."""

    def __init__(self, services: Sequence[RemoteService], patience: Patience) -> None:
        self.patience = patience
        self.services = list(services)
        self.terms: dict[str, str] = {}
        """By kind of device, what every service that has it must be like."""
        self._guard = threading.Lock()
        self._open = ExitStack()
        self._watch = threading.Thread(target=self._look_after, name="judges", daemon=True)
        self.closing = threading.Event()
        """Set once the pool is left: nothing more is evaluated."""

    def __enter__(self) -> Self:
        for service in self.services:
            self._open.enter_context(service.client)
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        until = time.monotonic() + GOODBYE_S
        for service in self.services:
            if not service.trouble:
                service.withdraw_all(until)
        # Their callers hear that they are cancelled, and use the connections no more.
        while any(service.under_way for service in self.services) and time.monotonic() < until:
            time.sleep(0.01)
        if self._watch.is_alive():
            self._watch.join(GOODBYE_S)
        self._open.close()

    def meet(self, kinds: Collection[str], *, named: bool) -> None:
        """Ask all services for their facts, and refuse those that do not belong together.

        A service that does not answer may come later, as long as one answers; with `named`, the caller has
        named the device that is meant, and services without it are left out.

        Raises:
            ConfigError: a service can never evaluate for this process, or two are not comparable.
            MachineError: none answers.
        """
        with ThreadPoolExecutor(max_workers=16) as threads:
            list(threads.map(lambda service: service.meet({}), self.services))
        met = {service.url: service.facts for service in self.services if service.facts is not None}
        if not met:
            raise MachineError(self._nobody())
        kinds = kinds or {kind for one in self.services for kind in one.devices}
        for service in [one for one in self.services if one.url in met]:
            if not kinds & service.devices.keys():
                has = ", ".join(device.name for device in met[service.url].devices)
                why = f"{service.url} has no {' or '.join(sorted(kinds))} device that is meant (it has {has})"
                if not named:
                    raise ConfigError(f"{why}; leave it out, or name a device with --judge-device")
                _LOG.warning("left out: %s", why)
                self.services.remove(service)
        for kind in sorted(kinds):
            found = {
                one.url: terms_of(met[one.url], one.devices[kind])
                for one in self.services
                if one.url in met and kind in one.devices
            }
            if not found:
                raise ConfigError(f"no judge has the {kind} device that is meant: {', '.join(met)}")
            refuse_mixed(found)
            self.terms[kind] = next(iter(found.values()))
        for service in self.services:
            if service.trouble:
                _LOG.warning("%s; the others evaluate meanwhile", service.trouble)
        self._watch.start()

    def at_once(self, kinds: Collection[str]) -> int:
        """Evaluations at once of all services together."""
        return sum(one.devices[kind].at_once for one in self.services for kind in kinds & one.devices.keys())

    @contextmanager
    def service(
        self,
        kind: str,
        topic: str,
        avoid: Collection[str],
        *,
        knows: Callable[[RemoteService], bool],
        waits: Callable[[], None],
    ) -> Iterator[RemoteService]:
        """A service for one evaluation, one of `avoid` only if no other answers.

        It goes to a service that `knows` it already, from this process or an earlier one. `waits` is called
        again and again while no service answers; it may raise.

        Raises:
            MachineError: none answers for too long.
        """
        until = time.monotonic() + self.patience.nobody_s
        while not (up := [one for one in self.services if not one.trouble and kind in one.devices]):
            if time.monotonic() > until:
                raise MachineError(self._nobody())
            waits()
            self.closing.wait(0.1)
        up = [one for one in up if one.url not in avoid] or up
        ranked = sorted(up, key=lambda one: sha256_text(f"{one.url}\0{topic}"))
        known = next(filter(knows, ranked), None) if len(ranked) > 1 else None
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

    def lose(self, service: RemoteService, why: str) -> None:
        """Do not use a service for a while."""
        with self._guard:
            is_news = not service.trouble
            service.trouble = why
        if is_news:
            _LOG.warning("%s; what it has not answered goes to others, or waits", why)

    def owe(self, left: Mapping[str, str]) -> None:
        """Withdraw what lost services, by their addresses, may still evaluate, once they answer again."""
        for service in self.services:
            if evaluation := left.get(service.url):
                service.owe(evaluation)

    def _look_after(self) -> None:
        """Meet services that do not answer, until they do."""
        while not self.closing.wait(self.patience.recheck_s):
            for service in [one for one in self.services if one.trouble]:
                before = service.trouble
                try:
                    service.meet(self.terms)
                except ConfigError as error:
                    # It came back as another one; whoever put it there may put the right one back.
                    service.trouble = str(error)
                    if service.trouble != before:
                        _LOG.warning("not used: %s", error)
                if not service.trouble:
                    _LOG.info("%s answers again", service.url)

    def _nobody(self) -> str:
        why = "; ".join(one.trouble or f"{one.url} answers" for one in self.services)
        return f"no judge answers ({why}); start one of them, or name another with --judge"
