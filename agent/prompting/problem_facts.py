"""A problem's sizes for prompts: the evaluator's description as short lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kernelwright.agent.prompting.policy import TENSORS_LISTED
from kernelwright.agent.prompting.prompts import ProblemFacts
from kernelwright.evaluator import ProblemSignature, TensorFacts

_NARROW: Final = {"bfloat16": "bf16", "float16": "fp16"}


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
        narrow=_narrow(description),
    )
    return None if facts == ProblemFacts() else facts


def _narrow(description: ProblemSignature) -> str | None:
    """The 16-bit type of a problem's matrices: it may be multiplied at the rate of that type."""
    matrices = [each for each in (*description.inputs, *description.parameters) if len(each.shape) > 1]
    found = {_NARROW.get(each.dtype) for each in matrices} - {None}
    return min(found) if found and description.flops else None  # type: ignore[type-var]  # no None is left


def _listed(tensors: Sequence[TensorFacts]) -> tuple[str, ...]:
    shown = tuple(map(str, tensors[:TENSORS_LISTED]))
    rest = tensors[TENSORS_LISTED:]
    if not rest:
        return shown
    return (*shown, f"and {len(rest)} more with {sum(one.elements for one in rest):,} values")
