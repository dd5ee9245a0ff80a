"""The policy of a score: everything that decides what a speedup means, besides the candidate and the problem.

Scores of different policies are never compared, ranked together or replaced by one another. Limits, sizes of
batches and hardware counters are no part of it: they decide how soon and how surely a score is known.
"""

from __future__ import annotations

from typing import Final

from kernelwright.evaluator import (
    Dtype,
    Evaluation,
    EvaluationConfig,
    Math,
    Passes,
    Record,
    SandboxTier,
    Sanitize,
    sha256_text,
)

ID_DIGITS: Final = 8
UNKNOWN_HARDWARE: Final = "unknown"

TASK_SETTINGS: Final = ("shapes", "dtype", "math", "passes")
"""Settings that say what is computed; the others say how it is measured."""
_USUAL: Final = ("dtype", "shapes", "passes", "is_seeded", "threads")
_OF_MACHINE: Final = ("hardware", "sanitizers", "sandbox", "torch", "threads", "evaluator", "rules")
"""Fields that are known only once a candidate reached a device."""


class ScorePolicy(Record):
    """The terms of one score; None and zero where an old record, or one that reached no device, is silent."""

    hardware: str | None = None
    """Name of the device."""
    shapes: str | None = None
    """Name in the problem's SHAPES; None for its own sizes."""
    dtype: Dtype = Dtype.AS_IS
    math: Math = Math.FP32
    passes: Passes = Passes.FORWARD
    baselines: tuple[str, ...] = ()
    """Baselines that were timed, sorted; none where speed was not measured."""
    trials: int = 0
    sanitizers: bool = False
    """True where sanitizers run on what passes everything else."""
    is_seeded: bool = False
    """True where the secret seed was replaced by a known one."""
    sandbox: str | None = None
    """Tier that isolated the candidate."""
    torch: str | None = None
    threads: int | None = None
    """Threads of torch on a CPU; None on a GPU."""
    evaluator: str = ""
    """Version of the evaluator."""
    rules: int = 0
    """Version of its rules that score; 0 in records older than the count."""

    @property
    def policy(self) -> ScorePolicy:
        """The policy alone, of a record that says more."""
        return ScorePolicy(**{name: getattr(self, name) for name in ScorePolicy.model_fields})

    @property
    def task(self) -> tuple[object, ...]:
        """The fields that say what was computed, and where; the others say how it was measured."""
        return self.hardware, *(getattr(self, name) for name in TASK_SETTINGS)

    def on(self, machine: ScorePolicy) -> ScorePolicy:
        """The same settings on the machine and by the evaluator of another policy."""
        return self.model_copy(update={name: getattr(machine, name) for name in _OF_MACHINE})

    @property
    def id(self) -> str:
        """A short hash of every field."""
        return sha256_text(self.policy.model_dump_json())[:ID_DIGITS]

    def words(self) -> dict[str, str]:
        """Each field in words for people."""
        baselines = " and ".join(self.baselines)
        return {
            "hardware": self.hardware or UNKNOWN_HARDWARE,
            "math": f"{self.math} math",
            "dtype": "own types" if self.dtype is Dtype.AS_IS else f"cast to {self.dtype}",
            "shapes": f"shapes {self.shapes}" if self.shapes else "own shapes",
            "passes": "with gradients" if self.passes is Passes.FORWARD_BACKWARD else "forward",
            "baselines": f"against {baselines}" if baselines else "no baselines known",
            "trials": f"{self.trials} trials" if self.trials else "trials not recorded",
            "sanitizers": "with sanitizers" if self.sanitizers else "without sanitizers",
            "is_seeded": "known seed" if self.is_seeded else "secret seed",
            "sandbox": "no sandbox"
            if self.sandbox == SandboxTier.NONE
            else f"{self.sandbox or 'unknown'} sandbox",
            "torch": f"torch {self.torch or 'unknown'}",
            "threads": f"{self.threads} threads" if self.threads else "threads not applicable",
            "evaluator": f"evaluator {self.evaluator or 'unknown'}",
            "rules": f"rules {self.rules}" if self.rules else "rules not recorded",
        }

    def differences(self, other: ScorePolicy) -> dict[str, str]:
        """The differing fields, each as `mine, not theirs`."""
        mine, theirs = self.words(), other.words()
        return {
            name: f"{mine[name]}, not {theirs[name]}"
            for name in mine
            if getattr(self, name) != getattr(other, name)
        }

    @property
    def terms(self) -> str:
        """Everything but the hardware on one line; types, sizes and passes only where they are not usual."""
        usual, words = ScorePolicy().words(), self.words()
        shown = (name for name in words if name not in _USUAL or words[name] != usual[name])
        return " · ".join(words[name] for name in shown if name != "hardware")

    def __str__(self) -> str:
        return f"{self.hardware or UNKNOWN_HARDWARE} · {self.terms}"


def policy_of(evaluation: Evaluation) -> ScorePolicy:
    """The policy under which an evaluation's score was measured."""
    machine = evaluation.environment
    is_gpu = machine is not None and machine.device != "cpu"
    return asked_policy(evaluation.config, is_gpu=is_gpu).model_copy(
        update={
            "hardware": machine.device_name if machine else None,
            "sandbox": machine.sandbox.tier if machine else None,
            "torch": machine.torch if machine else None,
            "threads": machine.threads if machine and not is_gpu else None,
            "evaluator": evaluation.evaluator_version,
            "rules": evaluation.scoring_rules,
        }
    )


def asked_policy(config: EvaluationConfig, *, is_gpu: bool) -> ScorePolicy:
    """The policy as far as settings decide it, without the machine and the evaluator."""
    return ScorePolicy(
        shapes=config.shapes,
        dtype=config.dtype,
        math=config.math,
        passes=config.passes,
        baselines=tuple(sorted(set(config.baselines))) if config.measure else (),
        trials=config.trials,
        sanitizers=is_gpu if config.sanitize is Sanitize.AUTO else config.sanitize is not Sanitize.OFF,
        is_seeded=config.secret_seed is not None,
    )


def exclusion_reason(evaluation: Evaluation) -> str:
    """The reason why the score of what passed is neither ranked nor saved; empty if there is none."""
    measured = evaluation.measurement
    if measured is None:
        return ""
    if measured.contended:
        return "contended: other work disturbed the measurement; its interval may not hold"
    missing = sorted(set(evaluation.config.baselines) - {*measured.baselines, *measured.impossible})
    return f"its policy has a baseline that was not measured: {', '.join(missing)}" if missing else ""


def fit_speedup(evaluation: Evaluation) -> float | None:
    """The speedup that may be ranked and compared; None where there is none."""
    return None if exclusion_reason(evaluation) else evaluation.speedup


def slower(evaluation: Evaluation) -> str:
    """A sentence where the whole interval lies below 1, so that the kernel is surely slower; else empty."""
    measured = evaluation.measurement
    if measured is None or measured.interval.high >= 1.0:
        return ""
    low, high = measured.interval.low, measured.interval.high
    return f"slower than {measured.against}: {measured.speedup:.2f}× ({low:.2f}–{high:.2f})"
