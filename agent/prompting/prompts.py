"""Renders messages to models from the templates in `prompts/`; no prompt text is written here.

The part shared by every problem of a run (contract, guide, target, worked example) is the system message, so
that endpoints which cache prompt prefixes charge for it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernelwright.agent.prompting import policy
from kernelwright.agent.prompting.diagnostics import shortened, tail
from kernelwright.agent.prompting.feedback import (
    Bound,
    compiled_kernels,
    diagnosis_of,
    plain_name,
    roofline,
    speed_of,
)
from kernelwright.agent.prompting.foreign_text import bounded, fenced, in_code, stripped
from kernelwright.agent.prompting.hardware_facts import Hardware
from kernelwright.agent.records.messages import Message
from kernelwright.agent.records.score_policy import exclusion_reason
from kernelwright.agent.strategies import Exemplar
from kernelwright.evaluator import (
    Backend,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    Problem,
    ProblemSignature,
    TensorFacts,
    find_backend,
)

if TYPE_CHECKING:
    from jinja2 import Environment

SYSTEM: Final = "system.md.j2"
TASK: Final = "task.md.j2"
FEEDBACK: Final = "feedback.md.j2"

_NARROW: Final = {"bfloat16": "bf16", "float16": "fp16"}
"""Rates of matrices whose type tensor cores take as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The parts that all prompts of a run share."""

    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Shapes, dtype and precision policy."""
    hardware: Mapping[str, Hardware] = field(default_factory=dict)
    """Targets by kind of device, `cpu` and `cuda`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Software on the target, such as torch and CUDA."""
    facts: Mapping[str, ProblemSignature] = field(default_factory=dict)
    """By problem id."""
    fastest: Callable[[Evaluation], Evaluation | None] = lambda evaluation: None
    """Finds the fastest saved kernel of an evaluation's problem under its policy."""


class TemplatePrompts:
    """Implements `kernelwright.agent.strategies.Prompts` with the templates of a folder."""

    def __init__(self, folder: Path, setting: Setting | None = None) -> None:
        self._folder = folder
        self._setting = setting or Setting()

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
        bound, roofline_ms = _roofline(facts, self._setting.hardware.get(backend.device), config)
        return self._render(
            TASK,
            problem=problem,
            backend=backend,
            overrides=problem.overrides(config.shapes),
            dtype=config.dtype.value,
            facts=facts,
            bound=bound,
            roofline_ms=roofline_ms,
            kernels=exemplars,
        )

    def feedback(self, evaluation: Evaluation, code: str | None, worse: Evaluation | None = None) -> str:
        hardware = self._setting.hardware.get(find_backend(evaluation.backend).device)
        measured, saved = evaluation.measurement, self._setting.fastest(evaluation)
        return self._render(
            FEEDBACK,
            evaluation=evaluation,
            worse=worse,
            hardware=hardware,
            speed=speed_of(evaluation, measured, hardware, saved) if measured else None,
            compiled=compiled_kernels(evaluation),
            diagnosis=diagnosis_of(evaluation, code or ""),
        )

    def _render(self, name: str, **variables: Any) -> str:  # Any: whatever the template names
        from jinja2 import TemplateError

        try:
            text = self._environment.get_template(name).render(**variables)
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

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

        environment = Environment(
            loader=ChoiceLoader([FileSystemLoader(self._folder), FunctionLoader(_plugin_file)]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(policy=policy, zip=zip)
        environment.filters.update(number="{:,.6g}".format, milliseconds=_milliseconds)
        environment.filters.update(bytes=_bytes, count=_count)
        environment.filters.update(fenced=fenced, code=in_code, stripped=stripped, bounded=bounded)
        environment.filters.update(shortened=shortened, tail=tail, demangled=plain_name)
        environment.filters.update(tensors=_tensors, unfit=exclusion_reason)
        return environment


def _plugin_file(name: str) -> str | None:
    return Path(name).read_text("utf-8") if Path(name).is_absolute() else None


def installed_prompts() -> Path:
    """The folder of templates: the checkout's, else the copy inside the installed package."""
    return Path(__file__).parents[2] / "prompts"


def _roofline(
    facts: ProblemSignature | None, hardware: Hardware | None, config: EvaluationConfig
) -> tuple[Bound, float | None]:
    if facts is None or hardware is None:
        return "", None
    matrices = [each.dtype for each in (*facts.inputs, *facts.parameters) if len(each.shape) > 1]
    narrow = min((_NARROW[dtype] for dtype in matrices if dtype in _NARROW), default="")
    peak = hardware.peak.get(narrow) or hardware.peak_tflops(config.math)
    return roofline(facts.bytes_moved, facts.flops, bandwidth_gb_s=hardware.bandwidth_gb_s, peak_tflops=peak)


def _tensors(tensors: Sequence[TensorFacts]) -> str:
    """The first tensors, such as `x: float32[2048, 4096]`, and the size of the others."""
    shown, rest = tensors[: policy.TENSORS_LISTED], tensors[policy.TENSORS_LISTED :]
    more = [f"and {len(rest)} more with {sum(one.elements for one in rest):,} values"] if rest else []
    return ", ".join([*map(str, shown), *more])


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
