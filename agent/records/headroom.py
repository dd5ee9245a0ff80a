"""Headroom of problems: what their baselines take, and what the device would allow."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from kernelwright.agent.records.score_policy import TASK_SETTINGS
from kernelwright.evaluator import Evaluation, EvaluationConfig, Problem, Record, read_regular, write_whole


class Headroom(Record):
    """One problem under one policy on one device; times in milliseconds."""

    problem: str
    problem_sha: str
    config: EvaluationConfig
    device_name: str
    torch: str = ""
    eager_ms: float | None = None
    compile_ms: float | None = None
    """None where it was not asked for or the reference cannot be compiled."""
    roofline_ms: float | None = None
    """Least time by memory and arithmetic; None where it is not determined."""
    dense: bool = False
    """The roofline is that of all counted work, some of which a kernel may skip."""
    trouble: str = ""
    """Why nothing was measured; else empty."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for what one measurement answers: problem, policy and device."""
        return self.problem_sha, self.config.model_dump_json(), self.device_name

    @property
    def task(self) -> tuple[object, ...]:
        """Settings that say what is computed."""
        return tuple(getattr(self.config, name) for name in TASK_SETTINGS)

    @property
    def factor(self) -> float | None:
        """The better baseline's time over the roofline; None where either is not known."""
        times = [ms for ms in (self.eager_ms, self.compile_ms) if ms is not None]
        return min(times) / self.roofline_ms if times and self.roofline_ms else None


def headroom_of(problem: Problem, evaluation: Evaluation, device_name: str) -> Headroom:
    """Read the headroom off an evaluation of a problem's own reference."""
    measured, limits, machine = evaluation.measurement, evaluation.plausibility, evaluation.environment
    trouble, times = "", {}
    if measured is None:
        trouble = f"{evaluation.status}: {evaluation.detail}"
    elif measured.contended:
        trouble = "contended: other work disturbed it; measure it again"
    else:
        times = {name: timing.median_ms for name, timing in measured.baselines.items()}
    roofline = limits if limits and not trouble else None
    return Headroom(
        problem=problem.id,
        problem_sha=problem.sha,
        config=evaluation.config,
        device_name=device_name,
        torch=machine.torch if machine else "",
        eager_ms=times.get("eager"),
        compile_ms=times.get("compile"),
        roofline_ms=roofline.floor_ms if roofline else None,
        dense=roofline.dense if roofline else False,
        trouble=trouble,
    )


def read_headroom(path: Path) -> list[Headroom]:
    """Read a stored table; lines of another version are left out, and a missing file holds none."""
    found = []
    if path.exists():
        for text in read_regular(path).decode().splitlines():
            try:
                found.append(Headroom.model_validate_json(text))
            except ValidationError:
                continue
    return found


def store_headroom(path: Path, one: Headroom) -> None:
    """Add a row, in place of an older one with the same key."""
    others = [known for known in read_headroom(path) if known.key != one.key]
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = sorted((*others, one), key=lambda row: (row.problem, row.device_name))
    write_whole(path, "".join(row.model_dump_json() + "\n" for row in rows).encode())
