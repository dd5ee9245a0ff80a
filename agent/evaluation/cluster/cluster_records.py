"""The messages between this process and a judge on a node: JSON of these records, never pickled classes."""

from __future__ import annotations

import json

from pydantic import ValidationError

from kernelwright.agent.evaluation.failure_kinds import error_of, kind_of, told
from kernelwright.agent.evaluation.handshake import refuse_other_versions
from kernelwright.agent.evaluation.service_facts import ServiceFacts
from kernelwright.evaluator import Candidate, ConfigError, Evaluation, EvaluationConfig, Problem, Record


class JudgeOrder(Record):
    """Describes the judge that a node is asked for."""

    config: EvaluationConfig
    """Policy of its evaluations, by which it tries sandboxes and names its threads."""
    kind: str
    """Kind of its device, `cpu` or `cuda`."""
    backends: tuple[str, ...]
    """Backends of the candidates to come."""
    cache: str | None = None
    """Folder of builds and baselines on the node; None takes the node's own."""


class JudgeFacts(ServiceFacts):
    """A judge, its node and its device; a service's facts besides."""

    node: str
    """Ray's id of the node."""
    address: str
    """The node's address."""
    cores: int
    driver: str = ""
    """Version of the GPU's driver."""

    @property
    def place(self) -> str:
        """The node as messages name it."""
        return f"node {self.address} ({self.node[:8]})"

    @classmethod
    def read(cls, told: bytes | str) -> JudgeFacts:
        """The facts that a judge with this evaluator tells.

        Raises:
            ConfigError: another evaluator, or facts of another form.
        """
        answer = json.loads(told)
        place = f"node {answer.get('address')} ({node_of(told)[:8]})"
        # Before the form, which another version may have changed.
        refuse_other_versions(place, answer)
        try:
            return cls.model_validate_json(told)
        except ValidationError as error:
            raise ConfigError(
                f"{place} does not describe itself as a judge does: {error.errors()[0]['msg']}"
            ) from None


def node_of(told: bytes | str) -> str:
    """Ray's id of a node whose judge told its facts, in whatever form."""
    return str(json.loads(told).get("node", ""))


class ClusterRequest(Record):
    """One candidate to evaluate."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig


class Failure(Record):
    """An error of an evaluator, which is not scored."""

    kind: str
    message: str


class ClusterAnswer(Record):
    """An evaluation, or the error that came instead."""

    evaluation: Evaluation | None = None
    failure: Failure | None = None

    @classmethod
    def of_error(cls, error: Exception) -> ClusterAnswer:
        """The answer that an error is."""
        return cls(failure=Failure(kind=kind_of(error), message=told(error)))

    def result(self, where: str) -> Evaluation:
        """The evaluation.

        Raises:
            EvaluatorError: the error that came instead, of its own class.
        """
        if self.evaluation is not None:
            return self.evaluation
        failure = self.failure or Failure(kind="", message="an empty answer")
        raise error_of(failure.kind, f"{where}: {failure.message}")


class NoiseReading(Record):
    """A program timed against itself."""

    ratio: float | None
    """Its time by its time, at least 1; None where it could not be timed."""
    why: str = ""
    """The reason why it could not be."""
