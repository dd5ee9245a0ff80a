"""A problem's sizes for prompts: the evaluator's description as short lines."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.agent.prompting.policy import TENSORS_LISTED
from kernelwright.agent.prompting.prompts import ProblemFacts
from kernelwright.evaluator import ProblemSignature, TensorFacts


def facts_of(description: ProblemSignature) -> ProblemFacts | None:
    """Return the facts of a description; None if it has none."""
    facts = ProblemFacts(
        inputs=_listed(description.inputs),
        outputs=_listed(description.outputs),
        parameters=_listed(description.parameters),
        changed=description.changed,
        constant=description.constant,
        bytes_moved=description.bytes_moved,
        flops=description.flops,
    )
    return None if facts == ProblemFacts() else facts


def _listed(tensors: Sequence[TensorFacts]) -> tuple[str, ...]:
    shown = tuple(map(str, tensors[:TENSORS_LISTED]))
    rest = tensors[TENSORS_LISTED:]
    if not rest:
        return shown
    return (*shown, f"and {len(rest)} more with {sum(one.elements for one in rest):,} values")
