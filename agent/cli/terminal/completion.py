"""Completes names in a shell: problems, kernels, runs, attempts, and entries of the registries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import kernelwright as kw

Complete = Callable[[str], list[str]]


def _completer(names: Callable[[], Iterable[str]]) -> Complete:
    return lambda incomplete: sorted(name for name in names() if name.startswith(incomplete))


def among(choices: Sequence[str]) -> Complete:
    """Completes a fixed list of words."""
    return _completer(lambda: choices)


def registered(group: str) -> Complete:
    """Completes the entries of a registry."""

    def names() -> Iterable[str]:
        from kernelwright.evaluator import plugins

        return plugins(group)

    return _completer(names)


backends, strategies = registered("backends"), registered("strategies")
providers, formats = registered("providers"), registered("exporters")


@_completer
def problems() -> Iterable[str]:
    """Installed problems, by id and by the last part of it."""
    from kernelwright.agent.setup.problem_lookup import installed_problems

    files = list(installed_problems().glob("level*/*.py"))
    return [*(f"{file.parent.name}/{file.stem}" for file in files), *(file.stem for file in files)]


@_completer
def runs() -> Iterable[str]:
    """Runs of the workspace."""
    return (file.parent.name for file in _workspace().glob("runs/*/attempts.jsonl"))


@_completer
def kernels() -> Iterable[str]:
    """Saved kernels of the workspace."""
    return (file.parent.name for file in _workspace().glob("generated/*/*/*/score.json"))


@_completer
def attempts() -> Iterable[str]:
    """Attempts of the workspace's newest run."""
    archive = kw.Archive(_workspace() / "runs", lambda _: None)
    return (attempt.id[:12] for run in archive.runs()[-1:] for attempt in archive.attempts(run))


def _workspace() -> Path:
    # Completion sees one word: the environment names a workspace, an option beside it does not.
    return Path(os.environ.get("KERNELWRIGHT_WORKSPACE", ""))
