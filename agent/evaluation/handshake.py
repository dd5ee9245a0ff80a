"""Decides which services may evaluate for this process: same rules, same evaluator, one kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from kernelwright.agent.evaluation.evaluation_site import EvaluationRequest
from kernelwright.agent.evaluation.service_client import ServiceRefusal
from kernelwright.agent.evaluation.service_facts import ServedDevice, ServiceFacts
from kernelwright.agent.records.provenance import versions
from kernelwright.agent.records.score_policy import asked_policy
from kernelwright.evaluator import SCORING_RULES, ConfigError, Evaluation, EvaluatorError, source_sha

Facts = TypeVar("Facts", bound=ServiceFacts)


def read_facts(where: str, answer: Mapping[str, Any], form: type[Facts]) -> Facts:  # Any: JSON
    """The facts of an evaluator elsewhere; raises ConfigError unless it is the same as this one."""
    # Before the form, which another version may have changed.
    here = versions().get("kernelwright", "unknown")
    ours = (here, source_sha(), SCORING_RULES)
    theirs = (answer.get("version"), answer.get("evaluator_sha"), answer.get("scoring_rules"))
    if theirs[1:] != ours[1:]:
        raise ConfigError(
            f"{where} scores by other rules: it has {_words(*theirs)}, this is {_words(*ours)}; "
            "install the same version on both"
        )
    try:
        return form.model_validate(
            {name: value for name, value in answer.items() if name in form.model_fields}
        )
    except ValidationError as error:
        raise ConfigError(
            f"{where} does not describe itself as an evaluator does: {error.errors()[0]['msg']}"
        ) from None


def _words(version: object, sha: object, rules: object) -> str:
    return f"kernelwright {version}, evaluator {sha}, rules {rules}"


def explain_refusal(url: str, refusal: ServiceRefusal) -> EvaluatorError:
    """The error that a refused handshake is, with the way out."""
    match refusal.status:
        case 401 | 403:
            return ConfigError(
                f"{url} refuses the token; KERNELWRIGHT_JUDGE_TOKEN holds it, "
                "or a line of the file that KERNELWRIGHT_JUDGE_TOKEN_FILE names"
            )
        case 421:
            return ConfigError(f"{url} has no token and answers to its own machine only: {refusal}")
        case 404:
            return ConfigError(f"{url} is no kernelwright service, or an older one: {refusal}")
        case _:
            return ConfigError(str(refusal))


def served_devices(url: str, facts: ServiceFacts, wanted: str | None) -> dict[str, ServedDevice]:
    """The devices of a service by their kind, those alone whose name or kind is `wanted`.

    Raises ConfigError if it has different devices of one kind.
    """
    found: dict[str, ServedDevice] = {}
    for device in facts.devices:
        # By its kind, its name or a word of it: `cuda`, `NVIDIA H200`, `h200`.
        name = device.name.lower()
        if wanted is not None and wanted.lower() not in (device.kind, name, *name.split()):
            continue
        if device.kind in found:
            raise ConfigError(
                f"{url} has {found[device.kind].name} and {device.name}, and chooses between them itself; "
                "serve each by a service of its own, with `serve --device`"
            )
        found[device.kind] = device
    return found


def terms_of(facts: ServiceFacts, device: ServedDevice) -> str:
    """The part of a score's policy that is a service's: scores of different terms are not comparable."""
    threads = f" with {device.threads} threads" if device.threads else ""
    return f"{device.name}{threads}, torch {facts.torch}, {facts.sandbox} sandbox"


def refuse_mixed(found: Mapping[str, str]) -> None:
    """Refuse services of different terms, `found` by their addresses; the ConfigError names each."""
    if len(set(found.values())) > 1:
        told = "; ".join(f"{url}: {what}" for url, what in found.items())
        raise ConfigError(
            f"scores of different machines are not comparable: {told}; name the device that is meant with "
            "--judge-device, or leave services out"
        )


def refuse_other_content(where: str, asked: EvaluationRequest, found: Evaluation) -> None:
    """Raise EvaluatorError for a result about another evaluator, problem, candidate or policy."""
    is_gpu = found.backend != "cpp"
    same = (
        found.evaluator_sha == source_sha(),
        found.candidate_sha == asked.candidate.sha,
        found.problem_sha == asked.problem.sha,
        asked_policy(found.config, is_gpu=is_gpu) == asked_policy(asked.config, is_gpu=is_gpu),
    )
    if not all(same):
        raise EvaluatorError(f"{where} answers about something else than it was asked; nothing is scored")
