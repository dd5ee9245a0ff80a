"""The settings of a run: one record, read from a TOML file and options, stored with the run as TOML again."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue

from kernelwright.agent.records.budgets import Budget
from kernelwright.agent.records.messages import Sampling
from kernelwright.agent.setup.credentials import Address, JudgeAddress
from kernelwright.agent.setup.usage_error import UsageError, unknown, validated
from kernelwright.evaluator import EvaluationConfig, Record, plugins

_WORD: Final = re.compile(r"[\w./~:@+-]+")
"""A path, an address or a name that `--set` takes without quotes."""


def registered(group: str) -> AfterValidator:
    """Accepts the names of plugins of a group."""

    kind = {"strategies": "strategy"}.get(group, group.removesuffix("s"))

    def check(name: str) -> str:
        if name not in plugins(group):
            raise ValueError(unknown(kind, name, list(plugins(group))))
        return name

    return AfterValidator(check)


class EndpointChoice(Record):
    """An endpoint besides the one that `base_url` names."""

    base_url: Address = Field(pattern=r"^https?://[^/\s]+")
    model: str | None = None
    """Its name for the model; unset asks for the name that the run gives."""
    key_env: str | None = None
    """Environment variable that holds its key; unset sends no key."""


class RunSettings(Record):
    """Settings of a run; command-line options are made from them. Keys stay in the environment."""

    problems: tuple[str, ...] = ()
    """Files, folders, ids or levels."""
    backends: tuple[str, ...] = ()
    """Backend to write kernels for; may be repeated. Unset: cuda where there is a GPU, else cpp."""
    target: str | None = None
    """Hardware that prompts name, such as h200. Unset: this machine's."""
    models: tuple[str, ...] = ()
    """Model to ask; each gets every problem; may be repeated."""
    licenses: dict[str, str] = {}
    """Licence of a model's replies, by model; recorded with every attempt."""
    provider: Annotated[str, registered("providers")] | None = None
    """openai, replay for recorded replies, or another that is installed. Unset: openai with a key or a base
    URL, else replay."""
    provider_options: dict[str, JsonValue] = {}
    """Fields of the provider, beyond those that are settings here."""
    base_url: Address | None = None
    """OpenAI-compatible endpoint. Unset: $KERNELWRIGHT_BASE_URL, $OPENAI_BASE_URL, or OpenAI's own."""
    endpoints: dict[str, EndpointChoice] = {}
    """Endpoints of models that have their own, by model: {base_url = "…", model = "…", key_env = "…"}. There
    `model` is what the endpoint calls it, and `key_env` names the environment variable that holds the key."""
    fallbacks: tuple[EndpointChoice, ...] = ()
    """Endpoint to ask when those before it cannot answer; may be repeated."""
    batch_api: bool = False
    """Ask for samples through the OpenAI Batch API: cheaper, within a day."""
    fresh: bool = False
    """Ask anew, or take a known reply from the cache at no cost (the default)."""
    recordings: str | None = None
    """Folder of recorded replies. Unset: the installed ones."""
    stream: bool = True
    """Ask for replies as streams (the default), or whole."""
    sampling: Sampling = Sampling()
    """Sampling parameters sent to models."""
    strategy: Annotated[str, registered("strategies")] = "refine"
    """Strategy that decides the next question: sample, refine, evolve, or another that is installed."""
    options: dict[str, JsonValue] = {}
    """Fields of the strategy."""
    compared: dict[Annotated[str, registered("strategies")], dict[str, JsonValue]] = {}
    """Strategies that an experiment compares, each with its fields, instead of `strategy` and `options`."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Policy of every evaluation."""
    budget: Budget = Budget()
    """For the whole run."""
    problem_budget: Budget = Budget()
    """For each problem, model and backend."""
    completions: int = Field(default=8, ge=1, le=4096)
    """Replies awaited at once."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Requests the endpoint allows; its refusals are heeded in any case."""
    tokens_per_minute: float | None = Field(default=None, gt=0)
    """Prompt and completion tokens the endpoint allows."""
    prices: tuple[str, ...] = ()
    """Price tables (TOML files) before the installed list; agent/providers/prices.toml shows the format."""
    judges: tuple[JudgeAddress, ...] = ()
    """Address of a `kernelwright serve` that evaluates instead of this machine; may be repeated. Unset:
    $KERNELWRIGHT_JUDGE, with commas. Tokens come from $KERNELWRIGHT_JUDGE_TOKEN or the file that
    $KERNELWRIGHT_JUDGE_TOKEN_FILE names."""
    judge_device: str | None = None
    """Device that is meant where judges have different ones, such as h200; others are left out. Also of a
    cluster."""
    engine: Literal["local", "ray"] = "local"
    """Evaluate on this machine, or by judges on the nodes of a Ray cluster."""
    address: str | None = None
    """Address of the Ray cluster. Unset: $RAY_ADDRESS, else a cluster that begins on this machine."""
    cluster_judges: int | None = Field(default=None, ge=1, le=256)
    """Judges to ask a Ray cluster for at most, for one that starts nodes on demand. Unset: one for each GPU
    that it has now, or for each node without."""
    cluster_builders: int = Field(default=0, ge=0, le=256)
    """Builders to ask a Ray cluster for: each compiles candidates on two cores of a node, best of one without
    a GPU, while they wait for a judge."""
    insecure_cluster: bool = False
    """Use a Ray cluster that asks nobody for a token: whoever reaches it may run code on its nodes."""
    evaluators: int | None = Field(default=None, ge=1, le=256)
    """Candidates evaluated at once; timing is exclusive in any case. Unset: enough to keep devices busy."""
    keep_slower: bool = False
    """Save kernels that are slower than the fastest baseline, too."""
    confirm: bool = True
    """Evaluate the best of several attempts again before it counts (the default)."""
    plain_build: bool = True
    """Save only kernels that also build with torch's own headers, half a minute each (the default)."""
    few_shot: int = Field(default=0, ge=0, le=16)
    """Saved kernels of similar problems that prompts show."""
    few_shot_own: bool = False
    """Let a problem's own saved kernels be among them."""
    seed: int = 0
    """Seed of what strategies choose at random; sent to no model."""


def read_settings(
    path: Path | None, given: Mapping[str, object], flags: Mapping[str, str] = MappingProxyType({})
) -> RunSettings:
    """Settings from a TOML file with what the command line gave on top; raises UsageError, which says why."""
    written: dict[str, object] = {}
    if path is not None:
        try:
            written = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read settings {path}: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"settings {path} are not TOML: {error}") from None
    place = f"settings {path}: " if path else ""
    return validated(RunSettings, merge(written, given), place=place, names=flags)


def parse_assignments(texts: Sequence[str]) -> dict[str, object]:
    """The settings that `--set` gives, each a line of TOML; raises UsageError if one is not.

    A word such as a path needs no quotes.
    """
    found: dict[str, object] = {}
    for text in texts:
        try:
            found = merge(found, _assignment(text))
        except tomllib.TOMLDecodeError as error:
            raise UsageError(
                f"--set {text!r} is not NAME = VALUE in TOML: {error}; examples: --set sampling.top_p=0.9, "
                "--set 'licenses.MODEL = \"MIT\"'"
            ) from None
    return found


def _assignment(text: str) -> dict[str, object]:
    """Read one line of TOML; raises TOMLDecodeError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        name, _, value = text.partition("=")
        if not _WORD.fullmatch(value):
            raise
        return tomllib.loads(f'{name} = "{value}"')


def parse_settings(text: str) -> RunSettings:
    """Settings as a run stored them; raises UsageError if they are not settings of this version."""
    return validated(RunSettings, tomllib.loads(text))


def to_toml(settings: RunSettings) -> str:
    """The settings as TOML, defaults left out."""
    lines: list[str] = []
    _write_table(settings.model_dump(mode="json", exclude_defaults=True, exclude_none=True), "", lines)
    return "\n".join(lines).strip() + "\n"


def merge(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Two tables of settings as one; where both say something the upper one counts."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def _write_table(table: Mapping[str, object], name: str, lines: list[str]) -> None:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if name and (plain or not table):
        lines += ["", f"[{name}]"]
    lines += [f"{_key(key)} = {as_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            _write_table(value, f"{name}.{_key(key)}" if name else _key(key), lines)


def as_value(value: object) -> str:
    """A value as TOML writes it; raises UsageError if TOML has no such value."""
    match value:
        case bool() | int() | str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(as_value(item) for item in value)}]"
        case Mapping():
            return f"{{{', '.join(f'{_key(key)} = {as_value(item)}' for key, item in value.items())}}}"
        case _:
            raise UsageError(f"settings cannot hold {value!r}: TOML has no such value")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else as_value(name)
