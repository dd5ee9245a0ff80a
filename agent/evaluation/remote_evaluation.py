"""One evaluation at one service, from its submission to its result.

The service knows a content by its address: what is submitted twice is evaluated once, so a lost answer, a
restart on either side and a resumed run are all the same submission again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from types import MappingProxyType
from typing import Final

from kernelwright.agent.evaluation.evaluation_site import (
    EvaluationFailure,
    EvaluationHooks,
    EvaluationRequest,
)
from kernelwright.agent.evaluation.handshake import refuse_other_content
from kernelwright.agent.evaluation.policy import MOST_RESUBMISSIONS, QUEUE_S, WATCH_S
from kernelwright.agent.evaluation.remote_service import RemoteService
from kernelwright.agent.evaluation.service_client import (
    CLIENTS_CHOICE,
    PLACE,
    Answer,
    ServiceBusy,
    ServiceRefusal,
    ServiceUnreachable,
    backoff_s,
    submission,
)
from kernelwright.evaluator import (
    Cancelled,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    EvaluatorError,
    MachineError,
    ProblemError,
    Stage,
)

_LIVE: Final = ("queued", "running")
_REFUSED: Final[Mapping[str, type[EvaluatorError]]] = MappingProxyType(
    {"problem-refused": ProblemError, "config-refused": ConfigError, "unauthorized": MachineError}
)
"""The errors that refusals of a submission are, by their name."""


class ServiceLost(Exception):
    """A service does not answer any more; what it was evaluating is unanswered."""

    evaluation = ""
    """Id of what it was evaluating, if it had said so."""


class ServiceClosing(Exception):
    """A service ends; what waits there is left to the next one."""


@dataclass(eq=False)
class RemoteEvaluation:
    """One evaluation at one service. Lives in one thread."""

    service: RemoteService
    request: EvaluationRequest
    hooks: EvaluationHooks
    closing: Event
    """Set when the command ends."""
    lost_s: float
    """Seconds without an answer after which the service is lost."""
    _held: str = ""
    """Id of what this evaluation holds at the service."""
    _told: object = None

    def result(self) -> Evaluation:
        """Submit, follow, and return the result.

        Raises:
            ServiceLost, ServiceClosing: unanswered; another service may be asked.
            Cancelled: the caller stopped it; it is withdrawn.
            ConfigError, ProblemError, MachineError, EvaluatorError: as an evaluator on this machine raises.
        """
        try:
            answer = self._follow(fresh=False)
            if self.request.besides and answer["state"] == "finished":
                answer = self._other_result(answer)
        except ServiceRefusal as refusal:
            self._drop()
            raise _REFUSED.get(refusal.name, EvaluatorError)(str(refusal)) from None
        except ServiceLost as lost:
            lost.evaluation = self._held
            self._drop()
            raise
        except BaseException:
            held = self._held
            if self._drop():
                self.service.withdraw(held)
            raise
        self._drop()
        return self._result_of(answer)

    def _follow(self, *, fresh: bool) -> Answer:
        """Submit, and wait for the end; what the service has forgotten, or others cancelled, again."""
        for _ in range(MOST_RESUBMISSIONS):
            answer = self._ask("POST", PLACE, submission_for(self.service, self.request, fresh=fresh))
            self._hold(answer["id"])
            while answer["state"] in _LIVE:
                self._tell(answer)
                try:
                    answer = self._look(answer)
                except ServiceRefusal as refusal:
                    if refusal.status != 404:
                        raise
                    break
            else:
                if answer["state"] != "cancelled":
                    return answer
        raise EvaluatorError(f"{self.service.url} forgets or cancels evaluation {self._held}")

    def _look(self, answer: Answer) -> Answer:
        state, stage = answer["state"], answer["stage"]
        if answer["closing"] and state == "queued":
            # One that runs may end in time.
            raise ServiceClosing(f"{self.service.url} is ending")
        wait_s = QUEUE_S if state == "queued" else WATCH_S
        seen = f"{state}/{stage}" if stage else state
        path = f"{PLACE}/{answer['id']}?wait={wait_s:g}&seen={seen}"
        return self._ask("GET", path, wait_s=wait_s)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, wait_s: float = 0.0) -> Answer:
        """One request, until it has an answer; patience without end where the service asks for it."""
        lost_at, tries = 0.0, 0
        while True:
            tries += 1
            refuse_stopped(self.hooks, self.closing)
            try:
                return self.service.client.once(method, path, body, wait_s=wait_s)
            except ServiceBusy as busy:
                if busy.name == "draining":
                    raise ServiceClosing(f"{self.service.url} is ending") from None
                error: Exception = busy
                pause_s = max(backoff_s(tries), busy.retry_after_s)
                is_patient = bool(busy.name)
            except ServiceUnreachable as unreachable:
                error, pause_s, is_patient = unreachable, backoff_s(tries), False
            if is_patient:
                lost_at = 0.0
                self.hooks.on_queue(None)
            else:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > self.lost_s:
                    raise ServiceLost(str(error)) from None
                pause_s = min(pause_s, self.lost_s / 4)
            self._pause(pause_s)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.closing.wait(min(left_s, 1.0))
            refuse_stopped(self.hooks, self.closing)

    def _tell(self, answer: Answer) -> None:
        if answer["state"] == "queued":
            self.hooks.on_queue(answer["ahead"])
        elif answer["stage"] != self._told and answer["stage"] is not None:
            self._told = answer["stage"]
            self.hooks.on_stage(Stage(answer["stage"]))

    def _hold(self, evaluation: str) -> None:
        if evaluation != self._held:
            self._drop()
            self.service.hold(evaluation)
            self._held = evaluation

    def _drop(self) -> bool:
        """Hold nothing; return whether nobody else here follows what was held."""
        held, self._held = self._held, ""
        return bool(held) and self.service.release(held)

    def _other_result(self, answer: Answer) -> Answer:
        """The first result that counts and that the caller does not know; made if there is none.

        The first, so that nobody gets a luckier one by asking twice. A service has a most number of results;
        then the answer stays as it is.
        """
        if not any(one["counts"] for one in self._unknown(answer)):
            answer = self._follow(fresh=True)
        found = sorted(self._unknown(answer), key=lambda one: not one["counts"])
        if answer["state"] != "finished" or not found:
            return answer
        return answer | self._ask("GET", f"{PLACE}/{answer['id']}/results/{found[0]['round']}")

    def _unknown(self, answer: Answer) -> list[Answer]:
        known = {evaluation.evaluated_at for evaluation in self.request.besides}
        return [one for one in answer["results"] if one["evaluated_at"] not in known]

    def _result_of(self, answer: Answer) -> Evaluation:
        url = self.service.url
        if answer["state"] == "failed":
            raise EvaluationFailure.model_validate(answer["failure"]).error(url)
        evaluation = Evaluation.model_validate(answer["evaluation"])
        refuse_other_content(url, self.request, evaluation)
        return evaluation.model_copy(update={"problem": self.request.problem.id})


def refuse_stopped(hooks: EvaluationHooks, closing: Event) -> None:
    """Raise `Cancelled` once the caller has stopped an evaluation, or the command ends."""
    if closing.is_set() or (hooks.stop is not None and hooks.stop.is_set):
        raise Cancelled("the evaluation was stopped; nothing is scored")


def is_known(service: RemoteService, request: EvaluationRequest) -> bool:
    """True if a service has a result of this content, or evaluates it already for whomever."""
    try:
        service.client.once("POST", PLACE, submission_for(service, request, only_known=True))
    except EvaluatorError:
        return False
    return True


def submission_for(
    service: RemoteService, request: EvaluationRequest, *, fresh: bool = False, only_known: bool = False
) -> bytes:
    """The body of a request to a service, which may know the problem by another id.

    Raises ProblemError if it does not know the problem, and takes no sources.
    """
    problem, facts = request.problem, service.facts
    names = [name for name, sha in facts.problems.items() if sha == problem.sha] if facts else []
    if not names and not (facts and facts.takes_sources):
        raise ProblemError(
            f"{service.url} has no problem {problem.id} of this text, and takes none from clients: serve its "
            "file there, or have its operator pass --allow-problem-sources"
        )
    their_name = problem.id if problem.id in names or not names else names[-1]
    # In full, whatever the service's own defaults; limits as far as they are not the default ones.
    limits = request.config.limits.model_dump(mode="json", exclude_defaults=True)
    chosen = set(CLIENTS_CHOICE) - {"limits"}
    return submission(
        problem.model_copy(update={"id": their_name}),
        request.candidate,
        request.config.model_dump(mode="json", include=chosen, exclude_none=True) | {"limits": limits},
        fresh=fresh,
        only_known=only_known,
        send_source=not names,
    )


def refuse_operators_choices(config: EvaluationConfig) -> None:
    """Refuse settings that a client of a service cannot choose; the ConfigError names them."""
    free = {*CLIENTS_CHOICE, "device"}
    refused = sorted(config.model_dump(exclude_defaults=True).keys() - free)
    if refused:
        raise ConfigError(
            f"a judge's operator decides {', '.join(refused)}; leave that out, or evaluate without --judge"
        )
