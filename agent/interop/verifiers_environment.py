"""A `verifiers` environment whose reward is our evaluator.

Use `load_environment("kernelwright.agent.interop.verifiers_environment")`.

Neither `verifiers` nor `datasets` is needed before it is loaded. A reply is one turn; what it earns is what
the same attempt earns in our own exports. Failures of this machine are raised, never rewarded.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from kernelwright.agent.datasets import reward_of
from kernelwright.agent.datasets.policy import FAILED
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.prompting.hardware_facts import Hardware, find_target, this_machine
from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts, installed_prompts
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    Evaluator,
    Problem,
    find_backend,
    find_problems,
    read_problem,
)

Judging = Callable[[Problem, Candidate, EvaluationConfig], Evaluation]


class Reward(Protocol):
    """What a rubric calls; the names of its arguments are those of verifiers."""

    async def __call__(self, completion: object, info: object) -> float:
        """What a reply is worth."""
        ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """Problems to solve with one backend, under one policy."""

    problems: Mapping[str, Problem]
    backend: str
    config: EvaluationConfig
    hardware: Hardware | None = None
    """What the kernels are for, as far as it is known."""

    def rows(self) -> list[dict[str, object]]:
        """A row for each problem: the prompt we would send, and which problem it is.

        What takes running a problem to know, such as how many bytes it moves, is not in it.
        """
        hardware: dict[str, Hardware] = {self.hardware.kind: self.hardware} if self.hardware else {}
        prompts = TemplatePrompts(installed_prompts(), Setting(config=self.config, hardware=hardware))
        return [
            {
                "prompt": [message.model_dump() for message in prompts.opening(problem, self.backend)],
                "answer": "",
                "info": {"problem": problem.id, "problem_sha": problem.sha, "backend": self.backend},
            }
            for problem in self.problems.values()
        ]

    def judge(self, problem_id: str, reply: str, judging: Judging) -> float:
        """What a reply is worth.

        Raises:
            ConfigError: no such problem here.
            EvaluatorError: this machine failed; nothing was judged.
        """
        problem = self.problems.get(problem_id)
        if problem is None:
            raise ConfigError(f"no problem {problem_id!r} in this environment; it has {len(self.problems)}")
        found = extract(reply, finish_reason=None)
        if not found.code:
            return FAILED
        return reward_of(judging(problem, Candidate(source=found.code, backend=self.backend), self.config))

    def reward(self, judging: Judging) -> Reward:
        """The reward as a rubric calls it; judging blocks a thread, not the event loop."""

        async def kernel_reward(completion: object, info: object) -> float:
            facts = json.loads(info) if isinstance(info, str) else info
            name = str(facts["problem"]) if isinstance(facts, Mapping) else ""
            return await asyncio.to_thread(self.judge, name, last_said(completion), judging)

        return kernel_reward


def load_environment(
    problems: str | Path | Sequence[str | Path],
    backend: str = "cuda",
    config: Mapping[str, object] | None = None,
    cache: str | Path | None = None,
    service_url: str | None = None,
    target: str | None = None,
    **options: Any,  # Any: passed on to verifiers
) -> Any:  # Any: a `verifiers.Environment`, which is optional and has no types here
    """A single-turn environment over the problems in files and folders.

    `config` are fields of `EvaluationConfig`. The evaluator lives as long as the environment; with
    `service_url` a service judges instead, and `config` holds only what its clients may decide. Its token
    comes from KERNELWRIGHT_SERVICE_TOKEN. Prompts name the hardware that `target` does (`h200`); without it
    this machine's, unless a service judges.

    Raises:
        ConfigError: unknown backend or target, no such device here, or a `verifiers` that lacks single-turn
            environments.
        ProblemError: no problem there.
    """
    verifiers, datasets = _need("verifiers"), _need("datasets")
    if not hasattr(verifiers, "SingleTurnEnv"):
        raise ConfigError(
            "this verifiers has no SingleTurnEnv; install one that has: pip install 'verifiers<0.4'"
        )
    tasks = Tasks(
        problems=_read([problems] if isinstance(problems, str | Path) else problems),
        backend=find_backend(backend).name,
        config=EvaluationConfig.model_validate(config or {}),
        hardware=_hardware(target, backend, is_here=service_url is None),
    )
    if service_url is not None:
        judging = judging_service(service_url, os.environ.get("KERNELWRIGHT_SERVICE_TOKEN"))
    else:
        judging = Evaluator(cache=Path(cache) if cache is not None else None).evaluate
    rubric = verifiers.Rubric(funcs=[tasks.reward(judging)], weights=[1.0])
    return verifiers.SingleTurnEnv(dataset=datasets.Dataset.from_list(tasks.rows()), rubric=rubric, **options)


def judging_service(url: str, token: str | None) -> Judging:
    """A service in the place of an evaluator; it must have the same problems.

    Raises:
        ConfigError: not an address.
    """
    from kernelwright.agent.service.client import ServiceClient

    return ServiceClient(url, token).evaluate


def last_said(completion: object) -> str:
    """The text of a completion: a string, or the last of a list of messages."""
    if isinstance(completion, str):
        return completion
    last = completion[-1] if isinstance(completion, Sequence) and completion else {}
    content = last.get("content") if isinstance(last, Mapping) else getattr(last, "content", "")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def _hardware(target: str | None, backend: str, *, is_here: bool) -> Hardware | None:
    prompts = installed_prompts()
    if target is not None:
        return find_target(target, prompts)
    return (
        this_machine("cpu" if find_backend(backend).device == "cpu" else "cuda", prompts) if is_here else None
    )


def _read(places: Iterable[str | Path]) -> dict[str, Problem]:
    found = [read_problem(path) for path in find_problems(Path(place) for place in places)]
    return {problem.id: problem for problem in found}


def _need(module: str) -> Any:  # Any: optional, without types
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"this environment needs {module}; install it with: pip install 'verifiers<0.4' datasets"
        ) from None
