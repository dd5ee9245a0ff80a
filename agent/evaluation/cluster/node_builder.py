"""The builder on a node: compiles candidates on its cores, for judges elsewhere. Imports no Ray."""

from __future__ import annotations

from pathlib import Path

from kernelwright.agent.evaluation.cluster.cluster_records import CandidateBuilds, JudgeOrder
from kernelwright.evaluator import BuildsElsewhere, default_cache


class NodeBuilder:
    """Builds one candidate at a time; its methods take text and return JSON."""

    def __init__(self, order: bytes) -> None:
        """`order` is that of the judges that it builds for."""
        asked = JudgeOrder.model_validate_json(order)
        self.builds = BuildsElsewhere(Path(asked.cache) if asked.cache else default_cache(), asked.config)

    def is_ready(self) -> bytes:
        """Answer, which shows that it runs."""
        return b"{}"

    def build(self, source: str, architecture: str | None) -> bytes:
        """Build what a candidate's text announces; return `CandidateBuilds`."""
        found = CandidateBuilds(builds=tuple(self.builds.build(source, architecture)))
        return found.model_dump_json().encode()
