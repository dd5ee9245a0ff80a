"""One service elsewhere as this process sees it: its facts, whether it answers, and what it holds for us."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress

from kernelwright.agent.evaluation.handshake import (
    explain_refusal,
    read_facts,
    refuse_mixed,
    served_devices,
    terms_of,
)
from kernelwright.agent.evaluation.policy import MOST_OWED, REQUEST_S
from kernelwright.agent.evaluation.service_client import (
    PLACE,
    ServiceBusy,
    ServiceClient,
    ServiceError,
    ServiceRefusal,
    ServiceUnreachable,
)
from kernelwright.agent.evaluation.service_facts import ServedDevice, ServiceFacts
from kernelwright.evaluator import ConfigError


class RemoteService:
    """One service. Usable from any thread; `under_way` and `trouble` are the pool's to change."""

    def __init__(self, url: str, token: str | None, wanted: str | None) -> None:
        """`wanted` names a device or a kind of device, if any. Raises ConfigError if this is no address."""
        self.client = ServiceClient(url, token, request_s=REQUEST_S)
        self.url = self.client.url
        self.facts: ServiceFacts | None = None
        """None until it has answered."""
        self.devices: dict[str, ServedDevice] = {}
        """By kind, of its last answer."""
        self.trouble = "not asked yet"
        """The reason why it is not used now; empty if it is."""
        self.under_way = 0
        """Evaluations that this process has there."""
        self._wanted = wanted
        self._guard = threading.Lock()
        self._held: Counter[str] = Counter()
        """Submitted evaluations, each with the number of callers who follow it."""
        self._owed: deque[str] = deque(maxlen=MOST_OWED)
        """Evaluations to withdraw once it answers, unless somebody follows them again."""

    def meet(self, terms: Mapping[str, str]) -> None:
        """Ask for its facts, and note whether it can be used.

        `terms`, by kind of device, are those of the services that evaluate already. Raises ConfigError if it
        never can: another evaluator, a refused token, devices that are not comparable.
        """
        try:
            facts = read_facts(self.url, self.client.facts(), ServiceFacts)
        except ServiceRefusal as refusal:
            raise explain_refusal(self.url, refusal) from None
        except (ServiceUnreachable, ServiceBusy) as error:
            self.trouble = str(error)
            return
        except ServiceError as error:
            raise ConfigError(str(error)) from None
        devices = served_devices(self.url, facts, self._wanted)
        for kind in terms.keys() & devices.keys():
            refuse_mixed({"the others": terms[kind], self.url: terms_of(facts, devices[kind])})
        self.devices, self.facts = devices, facts
        if facts.trouble:
            self.trouble = f"{self.url}: {'; '.join(facts.trouble)}"
            return
        self._settle_debts()
        self.trouble = ""

    def hold(self, evaluation: str) -> None:
        """Note that a caller follows a submitted evaluation."""
        with self._guard:
            self._held[evaluation] += 1

    def release(self, evaluation: str) -> bool:
        """Note that a caller follows it no more; return whether it was the last."""
        with self._guard:
            self._held[evaluation] -= 1
            if self._held[evaluation] > 0:
                return False
            del self._held[evaluation]
            return True

    def withdraw(self, evaluation: str) -> None:
        """Withdraw a submission that nobody here follows, now or once the service answers again."""
        try:
            self.client.once("DELETE", f"{PLACE}/{evaluation}")
        except (ServiceUnreachable, ServiceBusy):
            self._owed.append(evaluation)
        except ServiceError:
            # It has ended, or was never ours: nothing is left to withdraw.
            return

    def owe(self, evaluation: str) -> None:
        """Withdraw a submission once the service answers again: another has evaluated it."""
        self._owed.append(evaluation)

    def withdraw_all(self, until: float) -> None:
        """Withdraw everything that is held or owed, before a time of `time.monotonic()`."""
        with self._guard:
            held = [*self._held, *self._owed]
        for evaluation in held:
            if time.monotonic() > until:
                return
            with suppress(ServiceError):
                self.client.once("DELETE", f"{PLACE}/{evaluation}")

    def _settle_debts(self) -> None:
        for _ in range(len(self._owed)):
            with suppress(IndexError):
                evaluation = self._owed.popleft()
                if evaluation not in self._held:
                    self.withdraw(evaluation)
