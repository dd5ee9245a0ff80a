"""Puts a page together: the template, our own style and scripts, and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from kernelwright.agent.leaderboard.html import standings_table
from kernelwright.agent.leaderboard.html.page_content import Filled
from kernelwright.agent.leaderboard.html.standings_table import StandingsTable

ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = ("core.js", "lists.js", "explore.js", "drawing.js", "section.js", "compare.js", "start.js")
_STYLES: Final = ("page.css", "section.css")


Machine: TypeAlias = tuple[str, ...]
"""Device, driver, torch, CUDA, and the evaluator's version and source; empty where a record is silent."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A page without its data."""

    made: str
    tracks: Mapping[str, Sequence[StandingsTable]]
    """Standings over all correct kernels (`all`), and over those of one track; empty on further pages."""
    machines: Sequence[tuple[Machine, str]]
    attempts: int
    unjudged: int
    runs: int
    problems: int
    models: Sequence[str]
    hardware: Sequence[str]
    files: tuple[str, ...]
    number: int
    """Number of the page, from 0."""


def render(shell: Shell, filled: Filled | None = None) -> str:
    """The whole document; without data, to measure its size."""
    style, script = _joined(_STYLES), _script()
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return template(ASSETS / "page.html").render(
        shell=shell,
        filled=filled or Filled(),
        figures=standings_table,
        policy=policy,
        # Our own files, whose hashes the policy names; they hold no text of an archive.
        style=Markup(style),
        script=Markup(script),
    )


@cache
def _script() -> str:
    return f'(() => {{\n"use strict";\n{_joined(_SCRIPTS)}}})();\n'


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "".join((ASSETS / name).read_text("utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def template(file: Path, finalize: Callable[[object], object] | None = None) -> Template:
    """A template that escapes every value, after `finalize`, and fails on a missing one."""
    environment = Environment(
        loader=FileSystemLoader(file.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    return environment.get_template(file.name)
