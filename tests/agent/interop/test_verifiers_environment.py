"""The reward of a `verifiers` environment is what the evaluator says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.interop.verifiers_environment import EnvironmentTasks, last_text, load_environment
from kernelwright.agent.prompting.hardware_facts import find_target
from kernelwright.agent.prompting.prompts import installed_prompts
from kernelwright.evaluator import (
    Candidate,
    ConfigError,
    Evaluation,
    EvaluationConfig,
    Finding,
    Problem,
    Status,
)

if TYPE_CHECKING:
    from tests.agent.conftest import Make


def tasks(make: Make) -> EnvironmentTasks:
    problem = make.problem()
    return EnvironmentTasks(problems={problem.id: problem}, backend="cpp", config=EvaluationConfig())


def judged(make: Make, *args: Any, **changes: Any) -> Any:
    def judging(problem: Problem, candidate: Candidate, config: EvaluationConfig) -> Evaluation:
        return make.evaluation(*args, problem=problem, source=candidate.source, config=config, **changes)

    return judging


def test_right_earns_its_sure_speedup_wrong_nothing_and_deceit_less(make: Make) -> None:
    work, reply = tasks(make), make.reply()
    cheat = Finding(rule="patching", message="m", fatal=True)
    assert work.score("level1/01_add", reply, judged(make, speedup=2.0)) == pytest.approx(0.3 + 1.96)
    assert work.score("level1/01_add", reply, judged(make, speedup=500.0)) == pytest.approx(10.3)
    assert work.score("level1/01_add", reply, judged(make, speedup=None)) == 0.3
    assert work.score("level1/01_add", reply, judged(make, Status.WRONG_VALUES)) == 0.0
    assert work.score("level1/01_add", reply, judged(make, Status.REJECTED, findings=(cheat,))) == -1.0
    assert work.score("level1/01_add", "I cannot.", judged(make)) == 0.0
    with pytest.raises(ConfigError, match="no problem"):
        work.score("level9/none", reply, judged(make))


@pytest.mark.parametrize("as_text", [False, True])
def test_a_rubric_may_pass_facts_and_messages_in_any_of_its_forms(make: Make, as_text: bool) -> None:
    work = tasks(make)
    info: Any = work.rows()[0]["info"]
    reward = work.reward(judged(make, speedup=2.0))
    said = [{"role": "assistant", "content": make.reply()}]
    earned = asyncio.run(reward(completion=said, info=json.dumps(info) if as_text else info))
    assert earned == pytest.approx(2.26)
    assert last_text("text") == last_text([{"content": [{"type": "text", "text": "text"}]}]) == "text"


def test_rows_hold_the_prompt_we_would_send(make: Make) -> None:
    (row,) = tasks(make).rows()
    prompt: Any = row["prompt"]
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert "class Model" in prompt[1]["content"]


def test_rows_name_the_hardware_that_is_known(make: Make) -> None:
    target = find_target("h200", installed_prompts())
    work = replace(tasks(make), backend="cuda", hardware=target)
    prompt: Any = work.rows()[0]["prompt"]
    assert target.name in prompt[0]["content"]


def write_problem(folder: Path) -> Path:
    (folder / "level1").mkdir()
    file = folder / "level1" / "01_twice.py"
    file.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * 2 + 1\n\n\ndef get_inputs():\n    return [torch.randn(64, 33)]\n"
    )
    return file


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_environment_loads_and_rewards(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    verifiers = pytest.importorskip("verifiers")
    config = {"measure": False, "baselines": ["eager"], "trials": 1}
    if not hasattr(verifiers, "SingleTurnEnv"):
        with pytest.raises(ConfigError, match="SingleTurnEnv"):
            load_environment(write_problem(tmp_path), backend="cpp", config=config)
        pytest.skip("this verifiers has no single-turn environments")
    environment = load_environment(write_problem(tmp_path), backend="cpp", config=config, cache=tmp_path)
    row = environment.dataset[0]
    rubrics = getattr(environment.rubric, "rubrics", [environment.rubric])
    found = [function for rubric in rubrics for function in rubric.funcs]
    function = next(one for one in found if one.__name__ == "kernel_reward")
    answer = "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"
    for expression, earned in (("1 + x + x", 0.3), ("x", 0.0)):
        reply = f"```python\nimport torch\n\n{answer.format(expression)}```"
        said = [{"role": "assistant", "content": reply}]
        assert asyncio.run(function(completion=said, info=row["info"])) == earned
