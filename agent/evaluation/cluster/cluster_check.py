"""Asks every node of a cluster for a judge that describes itself, and says which may evaluate."""

from __future__ import annotations

import time

from kernelwright.agent.evaluation.cluster.cluster_records import JudgeFacts, JudgeOrder
from kernelwright.agent.evaluation.cluster.policy import DEAF_S
from kernelwright.agent.evaluation.cluster.ray_connection import JudgeDied, Node, RayConnection
from kernelwright.evaluator import ConfigError, EvaluationConfig, Record


class NodeReport(Record):
    """One node."""

    node: str
    """Ray's id."""
    address: str
    device: str = ""
    at_once: int = 0
    """Evaluations at once."""
    cores: int = 0
    torch: str = ""
    driver: str = ""
    sandbox: str = ""
    why: str = ""
    """The reason why it may not evaluate; empty if it may."""


def check_nodes(address: str | None, config: EvaluationConfig, *, allows_open: bool) -> list[NodeReport]:
    """A report for each node that has a GPU, or a core where no node has one.

    Raises ConfigError if the cluster refuses us or lets everybody in, MachineError if it does not answer.
    """
    with RayConnection(address, allows_open=allows_open) as cluster:
        cluster.refuse_open()
        nodes = cluster.nodes()
        has_gpus = any(node.fits("cuda") for node in nodes)
        kind = "cpu" if config.device == "cpu" or not has_gpus else "cuda"
        able = [node for node in nodes if node.fits(kind)]
        asked = EvaluationConfig(device=kind, sandbox=config.sandbox)
        order = JudgeOrder(config=asked, kind=kind, backends=("cuda" if kind == "cuda" else "cpp",))
        judges = [cluster.start_judge(order, avoid=(), on=node.id) for node in able]
        answers = [cluster.ask(judge, "facts") for judge in judges]
        until = time.monotonic() + DEAF_S
        return [_report(cluster, node, one, until) for node, one in zip(able, answers, strict=True)]


def _report(cluster: RayConnection, node: Node, answer: object, until: float) -> NodeReport:
    nothing = NodeReport(node=node.id, address=node.address)
    try:
        told = cluster.answer(answer, max(0.1, until - time.monotonic()))
    except JudgeDied as died:
        return nothing.model_copy(update={"why": f"its judge ended: {died}"})
    if told is None:
        return nothing.model_copy(update={"why": "busy with other work of the cluster, or does not answer"})
    try:
        facts = JudgeFacts.read(told)
    except ConfigError as error:
        return nothing.model_copy(update={"why": str(error)})
    device = facts.devices[0] if facts.devices else None
    return NodeReport(
        node=node.id,
        address=node.address,
        device=device.name if device else "",
        at_once=device.at_once if device else 0,
        cores=facts.cores,
        torch=facts.torch,
        driver=facts.driver,
        sandbox=facts.sandbox,
        why="; ".join(facts.trouble),
    )
