"""Completes names in a shell: problems, kernels, runs, attempts, and entries of the registries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Complete = Callable[[str], list[str]]


def among(choices: Sequence[str]) -> Complete:
    """Completes a fixed list of words."""
    return lambda incomplete: _beginning(incomplete, choices)


def registered(group: str) -> Complete:
    """Completes the entries of a registry."""

    def complete(incomplete: str) -> list[str]:
        from kernelwright.evaluator import plugins

        return _beginning(incomplete, plugins(group))

    return complete


backends, strategies = registered("backends"), registered("strategies")
providers, formats = registered("providers"), registered("exporters")


def problems(incomplete: str) -> list[str]:
    """Installed problems, by id and by the last part of it."""
    from kernelwright.agent.setup.problem_lookup import installed_problems

    files = sorted(installed_problems().glob("level*/*.py"))
    return _beginning(
        incomplete, [*(f"{file.parent.name}/{file.stem}" for file in files), *(f.stem for f in files)]
    )


def runs(incomplete: str) -> list[str]:
    """Runs of the workspace."""
    return _beginning(incomplete, (file.parent.name for file in _workspace().glob("runs/*/attempts.jsonl")))


def kernels(incomplete: str) -> list[str]:
    """Saved kernels of the workspace."""
    return _beginning(
        incomplete, (file.parent.name for file in _workspace().glob("generated/*/*/*/score.json"))
    )


def attempts(incomplete: str) -> list[str]:
    """Attempts of the workspace's newest run."""
    from kernelwright.agent.archive import Archive

    archive = Archive(_workspace() / "runs", lambda _: None)
    newest = archive.runs()[-1:]
    return _beginning(incomplete, (attempt.id[:12] for run in newest for attempt in archive.attempts(run)))


def _workspace() -> Path:
    # Completion sees one word: the environment names a workspace, an option beside it does not.
    return Path(os.environ.get("KERNELWRIGHT_WORKSPACE", ""))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
