"""Options are made from the settings models: what help says is what the models declare."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from kernelwright.agent.cli.results.export import OPTIONS
from kernelwright.agent.cli.terminal.declared_settings import declared
from kernelwright.agent.cli.terminal.options import SETTINGS
from kernelwright.agent.datasets import DatasetSettings, Filters
from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling
from kernelwright.agent.setup.run_settings import RunSettings
from kernelwright.agent.strategies.refine import Refine
from kernelwright.evaluator import EvaluationConfig
from tests.agent.cli.conftest import Command

MODELS: dict[str, Any] = {
    "": RunSettings,
    "options": Refine,
    "sampling": Sampling,
    "budget": Budget,
    "evaluation": EvaluationConfig,
    "export": DatasetSettings,
    "export.filters": Filters,
}


@pytest.mark.parametrize("path", [*SETTINGS, *OPTIONS])
def test_what_is_read_from_the_text_is_what_the_model_declares(path: str) -> None:
    model, _, name = path.rpartition(".")
    field, found = MODELS[model].model_fields[name], declared(path)
    assert found.help == " ".join((field.description or "").split())
    assert found.help.endswith(".")
    if field.default is None or found.default == "":
        assert found.default == "" or path == "evaluation.limits"
    elif isinstance(field.default, tuple):
        assert found.default == ",".join(field.default)
    else:
        assert found.default == str(getattr(field.default, "value", field.default)).lower()
    for bound in field.metadata:
        limit = next((getattr(bound, word) for word in ("ge", "le") if hasattr(bound, word)), None)
        assert not limit or str(limit) in found.bounds


def test_choices_and_bounds_are_shown(kernelwright: Command) -> None:
    text = kernelwright("run", "--help").stdout
    for words in ("fp32|tf32|bf16|fp16", "auto|on|all|off", "1..4096", "--time", "--no-plain-build"):
        assert words in text
    assert text.count("<bool>") == 1, "only typer's own --help is shown so"


@pytest.mark.parametrize(
    ("arguments", "place", "value"),
    [
        ((), ("evaluation", "passes"), None),
        (("--forward",), ("evaluation", "passes"), "forward"),
        (("--backward",), ("evaluation", "passes"), "forward_backward"),
        (("--no-time",), ("evaluation", "measure"), False),
        (("--limit", "total_s=60"), ("evaluation", "limits", "total_s"), 60.0),
        (("--baselines", "eager"), ("evaluation", "baselines"), ["eager"]),
        (("-b", "cpp,cuda", "-b", "triton"), ("backends",), ["cpp", "cuda", "triton"]),
        (("--max-time", "10m"), ("budget", "seconds"), 600.0),
        (("-n", "3", "--enough", "1.5"), ("options",), {"samples": 3, "enough": 1.5}),
    ],
)
def test_an_option_sets_its_setting(
    kernelwright: Command, arguments: tuple[str, ...], place: tuple[str, ...], value: object
) -> None:
    result = kernelwright("run", *arguments, "--print-config")
    found: Any = tomllib.loads(result.stdout)
    for name in place:
        found = (found or {}).get(name)
    assert json.loads(json.dumps(found)) == value, result.output
