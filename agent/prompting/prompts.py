"""Renders messages to models from the templates in `prompts/`; no prompt text is written here.

The part shared by every problem of a run (contract, guide, target, worked example) is the system message, so
that endpoints which cache prompt prefixes charge for it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernelwright.agent.prompting.feedback import collect
from kernelwright.agent.prompting.foreign_text import bounded, fenced, in_code, stripped
from kernelwright.agent.prompting.hardware_facts import Hardware
from kernelwright.agent.records.messages import Message
from kernelwright.agent.strategies import Exemplar
from kernelwright.evaluator import (
    Backend,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    Problem,
    Record,
    find_backend,
)

if TYPE_CHECKING:
    from jinja2 import Environment

SYSTEM: Final = "system.md.j2"
TASK: Final = "task.md.j2"
FEEDBACK: Final = "feedback.md.j2"


class ProblemFacts(Record):
    """Facts of a problem measured before the run; all optional."""

    inputs: tuple[str, ...] = ()
    """Such as `x: float32[2048, 4096]`."""
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """Such as `weight: float32[3072, 4096]`."""
    changed: tuple[str, ...] = ()
    """Inputs and buffers that a call changes, such as `keys` or `norm.running_mean`."""
    constant: tuple[str, ...] = ()
    """Inputs that are the same in every draw."""
    bytes_moved: int | None = None
    """Compulsory bytes: inputs and parameters read once, outputs written once."""
    flops: int | None = None
    """Of products, convolutions and attention."""
    narrow: str | None = None
    """Such as `bf16`, where matrices are of that type, which tensor cores take as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The parts that all prompts of a run share."""

    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Shapes, dtype and precision policy."""
    hardware: Mapping[str, Hardware] = field(default_factory=dict)
    """Targets by kind of device, `cpu` and `cuda`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Software on the target, such as torch and CUDA."""
    facts: Mapping[str, ProblemFacts] = field(default_factory=dict)
    """By problem id."""
    fastest: Callable[[Evaluation], Evaluation | None] = lambda evaluation: None
    """Finds the fastest saved kernel of an evaluation's problem under its policy."""


class TemplatePrompts:
    """Implements `kernelwright.agent.strategies.Prompts` with the templates of a folder."""

    def __init__(self, folder: Path, setting: Setting | None = None) -> None:
        self._folder = folder
        self._setting = setting or Setting()
        self._environment: Environment | None = None

    def opening(
        self, problem: Problem, backend: str, exemplars: Sequence[Exemplar] = ()
    ) -> tuple[Message, ...]:
        row = find_backend(backend)
        return (
            Message(role="system", content=self.render_system(row)),
            Message(role="user", content=self.render_task(problem, row, exemplars)),
        )

    def render_system(self, backend: Backend) -> str:
        """Contract, scoring, the backend's guide, the target and a worked example."""
        return self._render(
            SYSTEM,
            backend=backend,
            guide=self._located(backend, backend.guide_file),
            math=self._setting.config.math.value,
            passes=self._setting.config.passes.value,
            hardware=self._setting.hardware.get(backend.device),
            versions=dict(self._setting.versions),
            example={
                "reference": self._read("examples/reference.py"),
                "candidate": self._read(self._located(backend, backend.example_file)),
            },
        )

    def render_task(self, problem: Problem, backend: Backend, exemplars: Sequence[Exemplar] = ()) -> str:
        """The problem, its known facts, and kernels to learn from."""
        config, facts = self._setting.config, self._setting.facts.get(problem.id)
        return self._render(
            TASK,
            problem=problem,
            backend=backend,
            overrides=problem.overrides(config.shapes),
            dtype=config.dtype.value,
            facts=_roofline(facts, self._setting.hardware.get(backend.device), config) if facts else None,
            kernels=[_kernel(shown) for shown in exemplars],
        )

    def feedback(self, evaluation: Evaluation, code: str | None, worse: Evaluation | None = None) -> str:
        hardware = self._setting.hardware.get(find_backend(evaluation.backend).device)
        return self._render(
            FEEDBACK,
            feedback=collect(evaluation, code, hardware, self._setting.fastest(evaluation)),
            worse=collect(worse, None, hardware) if worse else None,
        )

    def _render(self, name: str, **variables: Any) -> str:  # Any: whatever the template names
        from jinja2 import TemplateError

        try:
            text = self._open().get_template(name).render(**variables)
        except (TemplateError, OSError) as error:
            raise ConfigError(f"cannot render {self._folder / name}: {error}") from error
        return _tidy(text)

    def _located(self, backend: Backend, name: str) -> str:
        return str(Path(backend.prompts_folder, name)) if backend.prompts_folder else name

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text("utf-8").strip()
        except OSError as error:
            raise ConfigError(f"cannot read {self._folder / name}: {error}") from error

    def _open(self) -> Environment:
        if self._environment is None:
            from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

            environment = Environment(
                loader=ChoiceLoader([FileSystemLoader(self._folder), FunctionLoader(_plugin_file)]),
                undefined=StrictUndefined,
                trim_blocks=True,
                lstrip_blocks=True,
                keep_trailing_newline=False,
                autoescape=False,
            )
            environment.filters.update(number=_number, bytes=_bytes, count=_count, milliseconds=_milliseconds)
            environment.filters.update(fenced=fenced, code=in_code, stripped=stripped)
            self._environment = environment
        return self._environment


def _plugin_file(name: str) -> str | None:
    return Path(name).read_text("utf-8") if Path(name).is_absolute() else None


def installed_prompts() -> Path:
    """The folder of templates: the checkout's, else the copy inside the installed package."""
    return Path(__file__).parents[2] / "prompts"


def _kernel(shown: Exemplar) -> dict[str, object]:
    facts = collect(shown.evaluation, shown.code)
    return {"code": bounded(shown.code), "problem": shown.evaluation.problem, "speed": facts.speed}


def _roofline(facts: ProblemFacts, hardware: Hardware | None, config: EvaluationConfig) -> dict[str, object]:
    times: dict[str, float] = {}
    peak = None
    if hardware:
        peak = hardware.peak.get(facts.narrow or "") or hardware.peak_tflops(config.math)
    if hardware and hardware.bandwidth_gb_s and facts.bytes_moved:
        times["memory"] = facts.bytes_moved / hardware.bandwidth_gb_s / 1e6
    if peak and facts.flops:
        times["arithmetic"] = facts.flops / peak / 1e9
    bound = max(times, key=lambda name: times[name], default="")
    known = facts.model_dump() | {"roofline_ms": times.get(bound), "bound": bound}
    return known if "memory" in times else known | {"roofline_ms": None}


def _tidy(text: str) -> str:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        line = line.rstrip()
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
        if line or fence or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _bytes(value: float) -> str:
    return _scaled(value, " bytes", " KB", " MB", " GB", digits=3)


def _count(value: float) -> str:
    return _scaled(value, "", " thousand", " million", " billion", digits=4)


def _scaled(value: float, unit: str, *larger: str, digits: int) -> str:
    if value < 1000 or not larger:
        return f"{value:.{digits}g}{unit}"
    return _scaled(value / 1000, *larger, digits=digits)


def _milliseconds(value: float) -> str:
    return f"{value * 1000:.3g} µs" if value < 1 else f"{value:.4g} ms"
