"""The messages between this process and a judge on a node: JSON of these records, never pickled classes."""

from __future__ import annotations

import json

from kernelwright.agent.evaluation.evaluation_site import EvaluationFailure
from kernelwright.agent.evaluation.handshake import read_facts
from kernelwright.agent.evaluation.service_facts import ServiceFacts
from kernelwright.evaluator import Candidate, Evaluation, EvaluationConfig, PackedBuild, Problem, Record


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
    architecture: str | None = None
    """The one that CUDA code is built for there, such as `sm_90`; None without a GPU."""

    @property
    def place(self) -> str:
        """The node as messages name it."""
        return _place(self.address, self.node)

    @property
    def at_once(self) -> int:
        """Evaluations at once on all its devices."""
        return max(1, sum(device.at_once for device in self.devices))

    @classmethod
    def read(cls, told: bytes | str) -> JudgeFacts:
        """The facts that a judge tells; raises what `read_facts` raises."""
        answer = json.loads(told)
        return read_facts(_place(answer.get("address"), node_of(told)), answer, cls)


def node_of(told: bytes | str) -> str:
    """Ray's id of a node whose judge told its facts, in whatever form."""
    return str(json.loads(told).get("node", ""))


def _place(address: object, node: str) -> str:
    return f"node {address} ({node[:8]})"


class ClusterRequest(Record):
    """One candidate to evaluate."""

    problem: Problem
    candidate: Candidate
    config: EvaluationConfig
    builds: tuple[PackedBuild, ...] = ()
    """A builder made these of it; empty where none did."""


class CandidateBuilds(Record):
    """The builds of one candidate."""

    builds: tuple[PackedBuild, ...]


class ClusterAnswer(Record):
    """An evaluation, or the error that came instead."""

    evaluation: Evaluation | None = None
    failure: EvaluationFailure | None = None

    def result(self, where: str) -> Evaluation:
        """The evaluation; raises the EvaluatorError that came instead."""
        if self.evaluation is not None:
            return self.evaluation
        failure = self.failure or EvaluationFailure(kind="evaluator", message="an empty answer")
        raise failure.error(where)


class NoiseReading(Record):
    """A program timed against itself."""

    ratio: float | None
    """Its time by its time, at least 1; None where it could not be timed."""
    why: str = ""
    """The reason why it could not be."""
