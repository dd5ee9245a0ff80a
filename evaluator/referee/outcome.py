"""The outcome of one candidate's evaluation in the referee: frozen, and extended stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernelwright.evaluator.referee.worker.candidate_failure import CandidateFailed
from kernelwright.evaluator.schema.evaluation import Stage, Status
from kernelwright.evaluator.schema.record import Record


@dataclass(frozen=True, slots=True)
class Outcome:
    """Status of a candidate, the stage that decided it, and the records until then."""

    stage: Stage = Stage.LOAD
    status: Status = Status.PASSED
    detail: str = ""
    traceback: str = ""
    records: Mapping[type[Record], Record] = field(default_factory=dict)
    """One at most of each stage's type."""
    notes: tuple[str, ...] = ()

    def with_record(self, record: Record) -> Outcome:
        """The same with one more record, or a newer one."""
        return replace(self, records={**self.records, type(record): record})

    def failed(self, failure: CandidateFailed) -> Outcome:
        """The same, ended by a failure, with the record that it carries."""
        record = failure.facts.get("verification")
        return replace(
            self.with_record(record) if record is not None else self,
            status=failure.status,
            detail=failure.detail,
            traceback=str(failure.facts.get("traceback", "")),
        )

    # Any: JSON.
    def to_json(self) -> dict[str, Any]:
        """Fields of the answer to the driver."""
        records = {kind.__name__.lower(): record for kind, record in self.records.items()}
        return {
            "status": self.status.value,
            "stage": self.stage.value,
            "detail": self.detail,
            "traceback": self.traceback,
            "notes": list(self.notes),
            **{name: record.model_dump(mode="json") for name, record in records.items()},
        }
