"""Decides which services may evaluate for this process: same rules, same evaluator, one kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kernelwright.agent.evaluation.evaluation_site import EvaluationRequest
from kernelwright.agent.evaluation.service_client import ServiceRefusal
from kernelwright.agent.evaluation.service_facts import ServedDevice, ServiceFacts
from kernelwright.agent.records.provenance import versions
from kernelwright.agent.records.score_policy import asked_policy
from kernelwright.evaluator import SCORING_RULES, ConfigError, Evaluation, EvaluatorError, source_sha


def read_facts(url: str, answer: Mapping[str, Any]) -> ServiceFacts:  # Any: JSON
    """The facts of a service with this evaluator.

    Raises:
        ConfigError: another evaluator, or an answer of another form.
    """
    # Before the form, which another version may have changed.
    refuse_other_versions(url, answer)
    try:
        return ServiceFacts.model_validate(
            {name: value for name, value in answer.items() if name in ServiceFacts.model_fields}
        )
    except ValidationError as error:
        raise ConfigError(
            f"{url} does not describe itself as a service does: {error.errors()[0]['msg']}"
        ) from None


def refuse_other_versions(url: str, answer: Mapping[str, Any]) -> None:
    """Refuse an evaluator of other rules.

    Raises:
        ConfigError: it is one; the message names both.
    """
    here = versions().get("kernelwright", "unknown")
    ours = (here, source_sha(), SCORING_RULES)
    theirs = (answer.get("version"), answer.get("evaluator_sha"), answer.get("scoring_rules"))
    if theirs[1:] != ours[1:]:
        raise ConfigError(
            f"{url} scores by other rules: it has {_words(*theirs)}, this is {_words(*ours)}; "
            "install the same version on both"
        )


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

    Raises:
        ConfigError: it has different devices of one kind.
    """
    found: dict[str, ServedDevice] = {}
    for device in facts.devices:
        if wanted is not None and wanted.lower() not in (device.kind, *_parts(device.name)):
            continue
        if device.kind in found:
            raise ConfigError(
                f"{url} has {found[device.kind].name} and {device.name}, and chooses between them itself; "
                "serve each by a service of its own, with `serve --device`"
            )
        found[device.kind] = device
    return found


def _parts(name: str) -> tuple[str, ...]:
    """A device's name and its words, by any of which it may be meant: `NVIDIA H200`, `h200`."""
    return name.lower(), *name.lower().split()


def terms_of(facts: ServiceFacts, device: ServedDevice) -> str:
    """The part of a score's policy that is a service's: scores of different terms are not comparable."""
    threads = f" with {device.threads} threads" if device.threads else ""
    return f"{device.name}{threads}, torch {facts.torch}, {facts.sandbox} sandbox"


def refuse_mixed(found: Mapping[str, str]) -> None:
    """Refuse services of different terms; `found` is the terms of each by its address.

    Raises:
        ConfigError: they differ; the message names each.
    """
    if len(set(found.values())) > 1:
        told = "; ".join(f"{url}: {what}" for url, what in found.items())
        raise ConfigError(
            f"scores of different machines are not comparable: {told}; name the device that is meant with "
            "--judge-device, or leave services out"
        )


def refuse_other_content(where: str, asked: EvaluationRequest, found: Evaluation) -> None:
    """Refuse a result of another evaluator, problem, candidate or policy than was asked for.

    Raises:
        EvaluatorError: it is one; nothing is scored.
    """
    is_gpu = found.backend != "cpp"
    same = (
        found.evaluator_sha == source_sha(),
        found.candidate_sha == asked.candidate.sha,
        found.problem_sha == asked.problem.sha,
        asked_policy(found.config, is_gpu=is_gpu) == asked_policy(asked.config, is_gpu=is_gpu),
    )
    if not all(same):
        raise EvaluatorError(f"{where} answers about something else than it was asked; nothing is scored")
