"""A `verifiers` environment whose reward is our evaluator.

Use `verifiers.load_environment("kernelwright", problems=[...])`, which finds `kernelwright.load_environment`.

Neither `verifiers` nor `datasets` is needed before it is loaded. A reply is one turn; its reward is that of
the same attempt in our exports. Failures of this machine are raised, never rewarded.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kernelwright.agent.datasets import reward_of
from kernelwright.agent.datasets.policy import FAILED
from kernelwright.agent.extraction.extract import extract
from kernelwright.agent.prompting.hardware_facts import Hardware, find_target, this_machine
from kernelwright.agent.prompting.prompts import Setting, TemplatePrompts, installed_prompts
from kernelwright.agent.providers.chat_stream import read_message
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

Evaluate = Callable[[Problem, Candidate, EvaluationConfig], Evaluation]


@dataclass(frozen=True, slots=True)
class EnvironmentTasks:
    """Problems to solve with one backend, under one policy."""

    problems: Mapping[str, Problem]
    backend: str
    config: EvaluationConfig
    hardware: Hardware | None = None
    """The hardware of the kernels, as far as it is known."""

    def rows(self) -> list[dict[str, object]]:
        """A row for each problem: the prompt we would send, and which problem it is.

        Facts that need a run of the problem, such as the bytes it moves, are not in it.
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

    def score(self, problem_id: str, reply: str, evaluate: Evaluate) -> float:
        """Evaluate a reply and return its reward.

        Raises:
            ConfigError: no such problem here.
            EvaluatorError: this machine failed; there is no result.
        """
        problem = self.problems.get(problem_id)
        if problem is None:
            raise ConfigError(f"no problem {problem_id!r} in this environment; it has {len(self.problems)}")
        found = extract(reply, finish_reason=None)
        if not found.code:
            return FAILED
        return reward_of(evaluate(problem, Candidate(source=found.code, backend=self.backend), self.config))

    def reward(self, evaluate: Evaluate) -> Callable[..., Awaitable[float]]:
        """The reward as a rubric calls it, by names of verifiers; it blocks a thread, not the event loop."""

        async def kernel_reward(completion: object, info: object) -> float:
            facts = json.loads(info) if isinstance(info, str) else info
            name = str(facts["problem"]) if isinstance(facts, Mapping) else ""
            return await asyncio.to_thread(self.score, name, last_text(completion), evaluate)

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
    `service_url` a service evaluates instead, and `config` holds only what its clients may decide. Its token
    comes from KERNELWRIGHT_SERVICE_TOKEN. Prompts name the hardware that `target` does (`h200`); without it
    this machine's, unless a service evaluates.

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
    tasks = EnvironmentTasks(
        problems=_read([problems] if isinstance(problems, str | Path) else problems),
        backend=find_backend(backend).name,
        config=EvaluationConfig.model_validate(config or {}),
        hardware=_hardware(target, backend, is_here=service_url is None),
    )
    if service_url is not None:
        evaluate = service_evaluate(service_url, os.environ.get("KERNELWRIGHT_SERVICE_TOKEN"))
    else:
        evaluate = Evaluator(cache=Path(cache) if cache is not None else None).evaluate
    rubric = verifiers.Rubric(funcs=[tasks.reward(evaluate)], weights=[1.0])
    return verifiers.SingleTurnEnv(dataset=datasets.Dataset.from_list(tasks.rows()), rubric=rubric, **options)


def service_evaluate(url: str, token: str | None) -> Evaluate:
    """A service of the same problems in the place of an evaluator; raises ConfigError for no address."""
    from kernelwright.agent.evaluation.service_client import ServiceClient

    return ServiceClient(url, token).evaluate


def last_text(completion: object) -> str:
    """The text of a completion: a string, or the last of a list of messages."""
    if isinstance(completion, str):
        return completion
    last = completion[-1] if isinstance(completion, Sequence) and completion else {}
    content = last.get("content") if isinstance(last, Mapping) else getattr(last, "content", "")
    return read_message({"content": content})[0]


def _hardware(target: str | None, backend: str, *, is_here: bool) -> Hardware | None:
    prompts = installed_prompts()
    if target is not None:
        return find_target(target, prompts)
    return this_machine(find_backend(backend).device, prompts) if is_here else None


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
